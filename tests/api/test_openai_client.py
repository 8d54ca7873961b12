"""The official openai Python client against the real program."""
import asyncio

import openai
import pytest

POEM = [{"role": "user", "content": "写一首关于春天的七言绝句"}]
HELLO = [{"role": "user", "content": "你好"}]


@pytest.fixture(scope="module")
def client(mini):
    with openai.OpenAI(base_url=f"{mini.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def chat(client, messages=POEM, **fields):
    return client.chat.completions.create(model="erne-mini", messages=messages, **fields)


def complete(client, prompt, **fields):
    return client.completions.create(model="erne-mini", prompt=prompt, **fields)


def test_models(client):
    assert [model.id for model in client.models.list()][0] == "erne-mini"
    assert client.models.retrieve("erne-mini").owned_by == "erne"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-9")


def test_chat(client):
    answer = chat(client, HELLO, seed=1)
    assert answer.object == "chat.completion" and answer.model == "erne-mini"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content and answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_stream_with_usage(client):
    chunks = list(chat(client, stream=True, max_tokens=30, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text and "\ufffd" not in text
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices == [] and 0 < chunks[-1].usage.completion_tokens <= 30
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_cached_tokens(client):
    ask = [{"role": "user", "content": "重复一遍：" + "春眠不觉晓，处处闻啼鸟。" * 8}]
    usages = [chat(client, ask, max_tokens=2).usage for _ in range(2)]
    assert usages[0].prompt_tokens_details.cached_tokens == 0
    assert 0 < usages[1].prompt_tokens_details.cached_tokens < usages[1].prompt_tokens
    salted = chat(client, ask, max_tokens=2, extra_body={"cache_salt": "mine", "priority": -1}).usage
    assert salted.prompt_tokens_details.cached_tokens == 0


def test_scoring_a_text(client):
    scored = complete(client, "春天来了", echo=True, logprobs=1, max_tokens=0)
    choice = scored.choices[0]
    assert choice.text == "春天来了" and "".join(choice.logprobs.tokens) == choice.text
    assert choice.logprobs.token_logprobs[0] is None and all(value < 0 for value in choice.logprobs.token_logprobs[1:])
    assert scored.usage.completion_tokens == 0
    listed = chat(client, HELLO, max_tokens=1, extra_body={"prompt_logprobs": 1})
    assert len(listed.prompt_logprobs) == listed.usage.prompt_tokens


def test_too_late(client):
    with pytest.raises(openai.APIStatusError) as late:
        chat(client, max_tokens=1900, n=32, extra_body={"ignore_eos": True, "timeout": 0.1})
    assert late.value.status_code == 504


def test_a_resumable_stream(client):
    fields = dict(stream=True, temperature=0, max_tokens=12, stream_options={"resumable_seconds": 30})
    raw = client.chat.completions.with_raw_response.create(model="erne-mini", messages=POEM, **fields)
    chunks = list(raw.parse())
    assert raw.headers["X-Stream-Id"] == chunks[0].id
    again = list(client.get(f"/streams/{chunks[0].id}", cast_to=openai.types.chat.ChatCompletionChunk, stream=True,
                            stream_cls=openai.Stream[openai.types.chat.ChatCompletionChunk],
                            options={"headers": {"Last-Event-ID": "4"}}))
    assert again == chunks[4:]


def test_the_stream_helper(client):
    with client.chat.completions.stream(model="erne-mini", messages=HELLO, temperature=0) as stream:
        deltas = "".join(event.delta for event in stream if event.type == "content.delta")
        final = stream.get_final_completion()
    assert final.choices[0].finish_reason == "stop"
    assert final.choices[0].message.content == deltas == chat(client, HELLO, temperature=0).choices[0].message.content


def test_stop(client):
    whole = chat(client, temperature=0, max_tokens=40).choices[0].message.content
    stop = whole[6:8]
    choice = chat(client, temperature=0, max_tokens=40, stop=[stop, "never"]).choices[0]
    assert choice.message.content == whole[:whole.index(stop)] and choice.finish_reason == "stop"
    assert choice.stop_reason == stop


def test_several_answers(client):
    answer = chat(client, n=2, seed=3, max_tokens=30)
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert answer.choices[0].message.content != answer.choices[1].message.content
    streamed = ["", ""]
    for chunk in chat(client, n=2, seed=3, max_tokens=30, stream=True):
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
    assert streamed == [choice.message.content for choice in answer.choices]


def test_seeds_repeat(client):
    def say(seed):
        return chat(client, seed=seed, temperature=1.0, max_tokens=30).choices[0].message.content
    assert say(7) == say(7)
    assert len({say(seed) for seed in range(6)}) > 1
    assert len({chat(client, temperature=1.5, max_tokens=30).choices[0].message.content for _ in range(6)}) > 1


def test_logprobs(client):
    answer = chat(client, logprobs=True, top_logprobs=4, max_tokens=20, temperature=0)
    tokens = answer.choices[0].logprobs.content
    assert len(tokens) == answer.usage.completion_tokens
    assert "".join(token.token for token in tokens) == answer.choices[0].message.content
    assert all(len(token.top_logprobs) == 4 and token.logprob <= 0 for token in tokens)
    assert all(bytes(token.bytes).decode() == token.token for token in tokens)
    streamed = [token for chunk in chat(client, logprobs=True, top_logprobs=4, max_tokens=20, temperature=0, stream=True)
                if chunk.choices[0].logprobs for token in chunk.choices[0].logprobs.content]
    assert streamed == tokens


def test_penalties_and_bias(client, mini):
    """What the client has fields for, and what goes into extra_body."""
    fields = dict(presence_penalty=0.5, frequency_penalty=0.5, max_tokens=20, seed=1,
                  extra_body={"min_p": 0.05, "top_k": 20, "repetition_penalty": 1.1, "min_tokens": 4, "ignore_eos": True})
    answer = chat(client, logprobs=True, **fields)
    assert answer.usage.completion_tokens == 20
    first = answer.choices[0].logprobs.content[0].token
    (banned,) = mini.post("/tokenize", {"prompt": first, "add_special_tokens": False}).json["tokens"]
    other = chat(client, logprobs=True, logit_bias={str(banned): -100}, **fields)
    assert all(token.token != first for token in other.choices[0].logprobs.content)


def test_max_completion_tokens(client):
    assert chat(client, max_completion_tokens=5).usage.completion_tokens == 5


def test_completions(client):
    answer = complete(client, "春天来了，", max_tokens=5, temperature=0, logprobs=2)
    choice = answer.choices[0]
    assert answer.object == "text_completion" and choice.finish_reason == "length"
    assert "".join(choice.logprobs.tokens) == choice.text and len(choice.logprobs.top_logprobs[0]) == 2
    assert choice.logprobs.text_offset[0] == 0
    several = complete(client, ["春天来了，", "秋天"], n=2, max_tokens=10, seed=1)
    assert [each.index for each in several.choices] == [0, 1, 2, 3]
    streamed = [""] * 4
    for chunk in complete(client, ["春天来了，", "秋天"], n=2, max_tokens=10, seed=1, stream=True):
        for each in chunk.choices:
            streamed[each.index] += each.text
    assert streamed == [each.text for each in several.choices]
    assert complete(client, [[5, 6, 7]], max_tokens=3).usage.prompt_tokens == 3
    assert complete(client, "春天", echo=True, max_tokens=3).choices[0].text.startswith("春天")


def test_the_asynchronous_client(mini):
    async def ask():
        async with openai.AsyncOpenAI(base_url=f"{mini.url}/v1", api_key="none") as client:
            answers = await asyncio.gather(*(chat(client, seed=i, max_tokens=20) for i in range(8)))
            return [answer.choices[0].message.content for answer in answers]
    assert all(asyncio.run(ask()))


def test_error_classes(client, mini):
    with pytest.raises(openai.NotFoundError) as error:
        client.chat.completions.create(model="gpt-9", messages=HELLO)
    assert error.value.param == "model" and error.value.type == "NotFoundError"
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="gpt-9", prompt="hi")
    for fields in ({"max_tokens": -1}, {"temperature": -1}, {"top_logprobs": 5}, {"logit_bias": {"x": 1}}):
        with pytest.raises(openai.BadRequestError) as error:
            chat(client, HELLO, **fields)
        assert error.value.param == next(iter(fields)) and error.value.status_code == 400
    with pytest.raises(openai.BadRequestError):
        complete(client, "hi", suffix="x")
    with pytest.raises(openai.BadRequestError, match="maximum context length"):
        chat(client, HELLO, max_tokens=100_000)
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="erne-mini", input="x")
    with pytest.raises(openai.APIConnectionError):
        openai.OpenAI(base_url="http://127.0.0.1:1/v1", api_key="none", max_retries=0).models.list()


def test_an_api_key():
    from erne_server import Server
    with Server("--api-key", "secret") as server:
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong").models.list()
        assert openai.OpenAI(base_url=f"{server.url}/v1", api_key="secret").models.list().data
