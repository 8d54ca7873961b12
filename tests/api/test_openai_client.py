"""The official openai Python client against the real program."""
import openai
import pytest


@pytest.fixture(scope="module")
def client(mini):
    return openai.OpenAI(base_url=f"{mini.url}/v1", api_key="none")


def test_models(client):
    assert [model.id for model in client.models.list()][0] == "erne-mini"
    assert client.models.retrieve("erne-mini").owned_by == "erne"


def test_chat(client):
    answer = client.chat.completions.create(model="erne-mini", messages=[{"role": "user", "content": "你好"}], seed=1)
    assert answer.choices[0].message.content and answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_stream_with_usage(client):
    chunks = list(client.chat.completions.create(
        model="erne-mini", messages=[{"role": "user", "content": "写一首诗"}], stream=True, max_tokens=30,
        stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text and "\ufffd" not in text
    assert chunks[-1].usage.completion_tokens <= 30


def test_error_classes(client):
    with pytest.raises(openai.NotFoundError) as error:
        client.chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": "hi"}])
    assert error.value.param == "model"
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="erne-mini", messages=[{"role": "user", "content": "hi"}], max_tokens=-1)
