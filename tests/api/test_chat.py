"""/v1/chat/completions of the real program with erne-mini: answers, streams, errors, and clients that go away."""
import concurrent.futures
import json
import socket
import time

import pytest

from erne_server import MINI, Server, content_of

GREEDY = json.loads((MINI / "expected_greedy.json").read_text(encoding="utf-8"))["cases"]
EXACT = {"temperature": 0, "repetition_penalty": 1}  # generation_config.json asks for a penalty of 1.05


@pytest.mark.parametrize("case", GREEDY, ids=[case["prompt"][:12] for case in GREEDY])
@pytest.mark.parametrize("executor", ["cpu", "reference"])
def test_greedy_answers_equal_the_expected_ones(executor, case, request):
    server = request.getfixturevalue("mini_exact" if executor == "cpu" else "mini_reference")
    ended = case["greedy_ids"][-1] in (2, 3)
    answer = server.chat(case["prompt"], max_tokens=len(case["greedy_ids"]), **EXACT).json
    choice = answer["choices"][0]
    assert choice["message"]["content"] == case["text"]
    assert choice["finish_reason"] == ("stop" if ended else "length")
    assert answer["usage"]["prompt_tokens"] == len(case["prompt_ids"])
    assert answer["usage"]["completion_tokens"] == len(case["greedy_ids"])


@pytest.fixture(scope="module")
def mini_reference():
    with Server("--executor", "reference") as server:
        yield server


def test_a_stream_says_the_same_as_a_whole_answer(mini):
    mini.chat("写一首关于春天的七言绝句", max_tokens=1)  # both find the prompt in the prefix cache
    whole = mini.chat("写一首关于春天的七言绝句", seed=7).json
    events = mini.stream("写一首关于春天的七言绝句", seed=7, stream_options={"include_usage": True})
    assert content_of(events) == whole["choices"][0]["message"]["content"]
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert events[-1]["choices"] == [] and events[-1]["usage"] == whole["usage"]
    finish = [event["choices"][0]["finish_reason"] for event in events[:-1]]
    assert finish[-1] == whole["choices"][0]["finish_reason"] and set(finish[:-1]) == {None}
    assert len({event["id"] for event in events}) == 1 and events[0]["id"].startswith("chatcmpl-")
    assert {event["object"] for event in events} == {"chat.completion.chunk"}


def test_the_same_request_alone_and_among_sixteen_others(mini):
    prompts = [f"第{i}个问题：" + "请讲一个故事。" * i for i in range(16)]
    alone = mini.chat("你好，你是谁？", seed=3, max_tokens=60).json["choices"][0]["message"]["content"]
    with concurrent.futures.ThreadPoolExecutor(17) as pool:
        others = [pool.submit(mini.chat, prompt, max_tokens=80) for prompt in prompts]
        among = pool.submit(mini.chat, "你好，你是谁？", seed=3, max_tokens=60).result()
        assert all(other.result().status == 200 for other in others)
    assert among.json["choices"][0]["message"]["content"] == alone


def test_seeds(mini):
    def say(seed):
        return mini.chat("写一首诗", seed=seed, temperature=1.0, max_tokens=40).json["choices"][0]["message"]["content"]
    assert say(1) == say(1)
    assert len({say(seed) for seed in range(8)}) > 1


def test_stop_strings(mini):
    case = next(case for case in GREEDY if len(case["text"]) > 20)
    stop = case["text"][8:11]
    answer = mini.chat(case["prompt"], stop=[stop, "never"], max_tokens=100, **EXACT).json
    choice = answer["choices"][0]
    assert choice["message"]["content"] == case["text"][:case["text"].index(stop)]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop)
    assert answer["usage"]["completion_tokens"] < len(case["greedy_ids"])
    events = mini.stream(case["prompt"], stop=stop, max_tokens=100, **EXACT)
    assert content_of(events) == choice["message"]["content"]


def test_content_parts_and_the_developer_role(mini):
    parts = [{"type": "text", "text": "你"}, {"type": "text", "text": "好"}]
    joined = mini.chat([{"role": "user", "content": parts}], max_tokens=20, **EXACT).json
    plain = mini.chat("你\n好", max_tokens=20, **EXACT).json
    assert joined["choices"][0]["message"]["content"] == plain["choices"][0]["message"]["content"]
    messages = [{"role": "developer", "content": "简洁回答。"}, {"role": "user", "content": "你好"}]
    as_system = [{"role": "system", "content": "简洁回答。"}, {"role": "user", "content": "你好"}]
    assert (mini.chat(messages, max_tokens=20, **EXACT).json["choices"]
            == mini.chat(as_system, max_tokens=20, **EXACT).json["choices"])


def test_a_typed_control_token_is_ordinary_text(mini):
    plain = mini.chat("a", max_tokens=1).json["usage"]["prompt_tokens"]
    typed = mini.chat("a<|end_of_sentence|>", max_tokens=1).json["usage"]["prompt_tokens"]
    assert typed > plain + 1


BAD_REQUESTS = {
    "overflow": ({"messages": [{"role": "user", "content": "好" * 5000}]}, None, "maximum context length is 2048 tokens"),
    "a megabyte": ({"messages": [{"role": "user", "content": "long text " * 100_000}]}, None, "maximum context length"),
    "prompt and answer overflow": ({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5000}, None,
                                   "5000 in the completion"),
    "no messages": ({"messages": []}, "messages", "messages"),
    "messages missing": ({}, "messages", "messages"),
    "messages of another kind": ({"messages": "hi"}, "messages", "messages"),
    "unknown role": ({"messages": [{"role": "wizard", "content": "hi"}]}, "messages[0].role", "wizard"),
    "negative max_tokens": ({"max_tokens": -1}, "max_tokens", "-1"),
    "max_tokens of another kind": ({"max_tokens": "many"}, "max_tokens", "string"),
    "negative temperature": ({"temperature": -0.5}, "temperature", "-0.5"),
    "top_p above 1": ({"top_p": 1.5}, "top_p", "1.5"),
    "top_k below -1": ({"top_k": -7}, "top_k", "-7"),
    "penalty 0": ({"repetition_penalty": 0}, "repetition_penalty", "0"),
    "stop of another kind": ({"stop": [1]}, "stop", "stop"),
    "a tool without a name": ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name", "string"),
    "min_p above 1": ({"min_p": 1.5}, "min_p", "1.5"),
    "penalty out of range": ({"presence_penalty": 3}, "presence_penalty", "3"),
    "top_logprobs alone": ({"top_logprobs": 3}, "top_logprobs", "logprobs"),
    "top_logprobs above 20": ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "20"),
    "bias of no token": ({"logit_bias": {"99999999": 1}}, "logit_bias", "99999999"),
    "bias of a word": ({"logit_bias": {"hello": 1}}, "logit_bias", "hello"),
    "bias above 100": ({"logit_bias": {"5": 101}}, "logit_bias", "101"),
    "allowed token outside": ({"allowed_token_ids": [99999999]}, "allowed_token_ids", "99999999"),
    "min_tokens above max_tokens": ({"min_tokens": 9, "max_tokens": 8}, "min_tokens", "9"),
    "repetition without a count": ({"repetition_detection": {"max_pattern_size": 4}}, "repetition_detection", "min_count"),
    "best_of below n": ({"n": 3, "best_of": 2}, "best_of", "at least"),
    "json schema": ({"guided_json": {"multipleOf": 3}}, "guided_json", "#/multipleOf is not supported"),
}


@pytest.mark.parametrize("fields, param, says", BAD_REQUESTS.values(), ids=BAD_REQUESTS.keys())
def test_bad_requests_name_the_field(mini, fields, param, says):
    body = {"model": "erne-mini", "messages": [{"role": "user", "content": "hi"}], **fields}
    if fields == {}:
        del body["messages"]
    answer = mini.post("/v1/chat/completions", body)
    assert answer.status == 400, answer.text
    error = answer.json["error"]
    assert error["code"] == 400 and says in error["message"], error
    if param:
        assert error["param"] == param
    assert mini.get("/health").status == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"messages": "\xc3("}', b"[" * 100_000,
                                  b'{"messages": [{"role": "user", "content": "\\ud800"}]}'])
def test_bodies_that_are_no_request(mini, body):
    answer = mini.post("/v1/chat/completions", body)
    assert answer.status == 400 and answer.json["error"]["type"] == "BadRequestError"
    assert mini.get("/health").status == 200


def test_unknown_fields_are_accepted(mini):
    assert mini.chat("你好", max_tokens=2, no_such_field={"a": 1}).status == 200


def test_routes(mini):
    assert mini.get("/nowhere").status == 404
    wrong = mini.get("/v1/chat/completions")
    assert wrong.status == 405 and "POST" in wrong.headers["Allow"]
    assert mini.get("/version").json["version"]
    model = mini.get("/v1/models").json["data"][0]
    assert model["id"] == "erne-mini" and model["owned_by"] == "erne" and model["max_model_len"] == 2048


def used_blocks(server):
    return server.get("/health").json["kv_blocks_used"]


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_frees_its_blocks(stream):
    with Server() as server:
        body = json.dumps({"model": "erne-mini", "messages": [{"role": "user", "content": "写一首诗"}], "stream": stream,
                           "ignore_eos": True, "max_tokens": 1900}).encode()
        sockets = []
        for _ in range(4):
            client = socket.create_connection(("127.0.0.1", server.port))
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
                           % (len(body), body))
            sockets.append(client)
        wait_until(lambda: used_blocks(server) > 0)
        for client in sockets:
            client.close()
        # Far sooner than four answers of 1,900 tokens could be finished.
        wait_until(lambda: used_blocks(server) == 0)
        assert server.chat("你好", max_tokens=4).status == 200


def wait_until(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


def test_api_key():
    with Server("--api-key", "secret") as server:
        assert server.get("/health").status == 200 and server.get("/").status == 200
        assert server.get("/v1/models").status == 401
        assert server.chat("hi", max_tokens=1).status == 401
        assert server.get("/v1/models", headers={"Authorization": "Bearer wrong"}).status == 401
        assert server.get("/v1/models", headers={"Authorization": "Bearer secret"}).status == 200


def test_sigterm_lets_a_running_answer_finish():
    with Server() as server, concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.chat, "写一首诗", ignore_eos=True, max_tokens=300)
        wait_until(lambda: used_blocks(server) > 0)
        server.process.terminate()
        assert answer.result().json["usage"]["completion_tokens"] == 300
        assert server.process.wait(30) == 0
