"""Conformance: shapes of answers, order of chunks, ends, and errors, as OpenAI's client and vLLM's users know them."""
import json
import socket
import subprocess

import openai
import pytest

from erne_server import BINARY, SOURCE, Server
from openai_door import EXACT, PROMPT, Door, joined, text_of

USAGE = {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"}
WHOLE = {"id", "object", "created", "model", "choices", "service_tier", "system_fingerprint", "usage", "kv_transfer_params"}
CHUNK = {"id", "object", "created", "model", "choices"}


@pytest.fixture(scope="module")
def client(mini):
    with openai.OpenAI(base_url=f"{mini.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(params=["chat", "completions"])
def door(client, request):
    return Door(client, request.param)


def plain(model):
    """What was on the wire: the client fills in what was not."""
    return model.model_dump(exclude_unset=True)


def test_a_whole_answer(door):
    answer = plain(door.send(n=2, seed=1))
    assert set(answer) == WHOLE | ({"prompt_logprobs"} if door.is_chat else set())
    assert answer["id"].startswith("chatcmpl-" if door.is_chat else "cmpl-")
    assert answer["object"] == ("chat.completion" if door.is_chat else "text_completion")
    assert set(answer["usage"]) == USAGE and answer["usage"]["total_tokens"] == sum(
        answer["usage"][name] for name in ("prompt_tokens", "completion_tokens"))
    for index, choice in enumerate(answer["choices"]):
        members = {"index", "logprobs", "finish_reason", "stop_reason", "token_ids"}
        assert set(choice) == members | ({"message"} if door.is_chat else {"text", "prompt_logprobs", "prompt_token_ids"})
        assert choice["index"] == index and choice["finish_reason"] in ("stop", "length")
        if door.is_chat:
            assert choice["message"]["role"] == "assistant" and isinstance(choice["message"]["content"], str)


@pytest.mark.parametrize("usage", [False, True])
def test_the_order_of_chunks(door, usage):
    """A beginning for each choice (chat), text, an end for each choice and nothing of it after that, usage, [DONE]."""
    fields = dict(n=3, seed=1, temperature=1.2) | ({"stream_options": {"include_usage": True}} if usage else {})
    chunks = [plain(chunk) for chunk in door.stream(**fields)]
    assert len({(chunk["id"], chunk["created"], chunk["model"], chunk["object"]) for chunk in chunks}) == 1
    if usage:
        last = chunks.pop()
        assert last["choices"] == [] and set(last["usage"]) == USAGE
        assert last["usage"]["completion_tokens"] == door.send(n=3, seed=1, temperature=1.2).usage.completion_tokens
    assert all(set(chunk) == CHUNK and len(chunk["choices"]) == 1 for chunk in chunks)
    if door.is_chat:
        begin = [chunk["choices"][0] for chunk in chunks[:3]]
        assert [choice["index"] for choice in begin] == [0, 1, 2]
        assert all(choice["delta"] == {"role": "assistant", "content": ""} for choice in begin)
    ended = set()
    for choice in (chunk["choices"][0] for chunk in chunks):
        assert choice["index"] not in ended
        if choice["finish_reason"]:
            assert "stop_reason" in choice
            ended.add(choice["index"])
    assert ended == {0, 1, 2}
    whole = [text_of(choice) for choice in door.send(n=3, seed=1, temperature=1.2).choices]
    assert [joined(door.stream(**fields), index) for index in range(3)] == whole


def test_how_answers_end(door):
    length = door.ask(max_tokens=3, ignore_eos=True).choice
    assert (length.finish_reason, length.stop_reason) == ("length", None)
    hello = "你好" if door.is_chat else "<|begin_of_sentence|>User: 你好\nAssistant: "
    ended = door.ask(hello, max_tokens=300, **EXACT).choice
    assert (ended.finish_reason, ended.stop_reason) == ("stop", None)
    whole = door.ask(**EXACT).text
    stopped = door.ask(stop=[whole[3:5]], **EXACT).choice
    assert (stopped.finish_reason, stopped.stop_reason) == ("stop", whole[3:5])


def test_stop_texts_anywhere_never_leak(door):
    """Every text of one to three characters of an answer, over edges of tokens and chunks."""
    fields = dict(max_tokens=30, **EXACT)
    whole = door.ask(**fields).text
    for begin in range(0, len(whole) - 3, 2):
        for size in (1, 2, 3):
            stop = whole[begin:begin + size]
            wanted = whole[:whole.index(stop)]
            assert joined(door.stream(stop=[stop], **fields)) == wanted, stop
            assert door.ask(stop=[stop, "never"], **fields).text == wanted, stop


@pytest.mark.parametrize("prompt", ["用emoji写一句话：👩‍👩‍👧‍👦🇨🇳👍🏽", "é🦅\n\ttab", "写一首诗"])
def test_streams_are_the_whole_text_in_whole_characters(door, prompt):
    for seed in range(3):
        fields = dict(seed=seed, temperature=1, max_tokens=40)
        chunks = door.stream(prompt, **fields)
        assert joined(chunks) == door.ask(prompt, **fields).text
        if "\ufffd" not in joined(chunks):  # the model itself may write what is no text
            assert all("\ufffd" not in joined([chunk]) for chunk in chunks)


def test_request_ids(mini, door):
    path = "/v1/chat/completions" if door.is_chat else "/v1/completions"
    body = {"prompt": "hi", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1, "request_id": "of-the-body"}
    named = mini.post(path, body, headers={"X-Request-Id": "of-the-header"})
    assert named.headers["X-Request-Id"] == "of-the-header" and named.json["id"].endswith("cmpl-of-the-header")
    drawn = [mini.post(path, body | {"request_id": None}).json["id"] for _ in range(2)]
    assert drawn[0] != drawn[1]
    assert mini.post(path, body | {"request_id": "a b"}).json["error"]["param"] == "request_id"


ERRORS = {
    "no JSON": ("POST", "/v1/chat/completions", b"{", 400, "BadRequestError", None),
    "a wrong field": ("POST", "/v1/chat/completions", {"messages": [], "n": 0}, 400, "BadRequestError", "n"),
    "too long": ("POST", "/v1/completions", {"prompt": "好" * 9000}, 400, "BadRequestError", "prompt"),
    "no such model": ("POST", "/v1/completions", {"model": "gpt-9", "prompt": "x"}, 404, "NotFoundError", "model"),
    "no such model's card": ("GET", "/v1/models/gpt-9", None, 404, "NotFoundError", "model"),
    "no such route": ("GET", "/v1/nothing", None, 404, "NotFoundError", None),
    "no such stream": ("GET", "/v1/streams/none", None, 404, "NotFoundError", None),
    "a wrong method": ("PUT", "/v1/completions", {}, 405, None, None),
    "packed": ("POST", "/v1/completions", {"prompt": "x"}, 415, None, None),
    "too late": ("POST", "/v1/completions", {"prompt": "x", "n": 32, "max_tokens": 1900, "ignore_eos": True, "timeout": 0.05}, 504,
                 "GatewayTimeoutError", None),
    "a bad template": ("POST", "/v1/chat/completions", {"messages": [{"role": "tool", "content": "x"}] * 2, "chat_template": "x"}, 400,
                       "BadRequestError", "chat_template"),
}


@pytest.mark.parametrize("method, path, body, status, kind, param", ERRORS.values(), ids=ERRORS.keys())
def test_error_bodies(mini, method, path, body, status, kind, param):
    headers = {"Content-Encoding": "gzip"} if status == 415 else {}
    answer = mini.request(method, path, body, headers=headers)
    assert answer.status == status and answer.headers["Content-Type"].startswith("application/json")
    assert set(answer.json) == {"error"}
    error = answer.json["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["code"] == status
    assert error["message"] and error["type"].endswith("Error") and (kind is None or error["type"] == kind)
    assert error["param"] == param


def test_an_error_in_a_stream(mini):
    body = {"prompt": "x", "n": 32, "max_tokens": 1900, "ignore_eos": True, "timeout": 0.3, "stream": True}
    frames = mini.post("/v1/completions", body).text.split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]
    error = json.loads(frames[-3].removeprefix("data: "))["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["code"] == 504


def test_a_key_protects_all_but_health_and_the_page():
    with Server("--api-key", "secret") as server:
        for path in ("/v1/models", "/metrics", "/version", "/openapi.json"):
            refused = server.get(path)
            assert refused.status == 401 and refused.json["error"]["type"] == "AuthenticationError"
            assert server.get(path, headers={"Authorization": "Bearer secret"}).status == 200
        for path in ("/health", "/health/live", "/health/ready", "/ping", "/"):
            assert server.get(path).status == 200


def test_what_the_operator_sets_for_all():
    flags = ("--enable-force-include-usage", "--trust-request-chat-template", "--default-chat-template-kwargs", '{"colour": "绿"}')
    with Server(*flags) as server:
        assert server.stream("你好", max_tokens=2)[-1]["usage"]["completion_tokens"] == 2
        asked = dict(chat_template="{{ colour }} {{ messages[0].content }}", return_prompt_text=True, max_tokens=1)
        assert server.chat("你好", **asked).json["prompt_text"] == "绿 你好"
        assert server.chat("你好", chat_template_kwargs={"colour": "红"}, **asked).json["prompt_text"] == "红 你好"


def test_the_openapi_document(mini):
    document = mini.get("/openapi.json").json
    assert document["openapi"].startswith("3.1") and document["info"]["title"] == "erne"
    for path, operations in document["paths"].items():
        for method in operations:
            if "{" not in path:
                asked = mini.request(method.upper(), path, {} if method == "post" else None)
                assert asked.status not in (404, 405), path


def test_the_list_of_fields(mini):
    """`erne fields` prints the page of the documentation, and the document that the server gives."""
    printed = subprocess.run([BINARY, "fields"], capture_output=True, text=True, check=True).stdout
    assert printed == (SOURCE / "docs/request-fields.md").read_text(encoding="utf-8")
    printed = subprocess.run([BINARY, "fields", "--openapi"], capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == mini.get("/openapi.json").json


def test_tokenize_sees_the_prompt_of_a_chat(mini):
    messages = [{"role": "user", "content": "你好"}, {"role": "assistant", "content": "您"}]
    for fields in ({}, {"continue_final_message": True}, {"add_generation_prompt": False}):
        told = mini.chat(messages, return_token_ids=True, max_tokens=1, **fields).json["prompt_token_ids"]
        assert mini.post("/tokenize", {"messages": messages, **fields}).json["tokens"] == told


def test_vllms_form_of_utf8(mini):
    """Texts are UTF-8 on the wire, never escapes."""
    raw = mini.chat("你好", max_tokens=8, **EXACT).body
    assert b"\\u" not in raw and any(byte >= 0x80 for byte in raw)
    with socket.create_connection(("127.0.0.1", mini.port)) as connection:  # any path of escapes in a body is the same text
        body = b'{"messages":[{"role":"user","content":"\\u4f60\\u597d"}],"max_tokens":8,"temperature":0,"repetition_penalty":1}'
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                           % (len(body), body))
        answer = b""
        while part := connection.recv(65536):
            answer += part
    content = json.loads(raw)["choices"][0]["message"]["content"]
    assert content.encode() in answer
