"""Fields about the prompt's probabilities, the prefix cache, the place in the queue and the time: as clients see them."""
import concurrent.futures
import json
import time

import pytest

from erne_server import MINI, Server, content_of

GREEDY = json.loads((MINI / "expected_greedy.json").read_text(encoding="utf-8"))["cases"]
EXACT = {"temperature": 0, "repetition_penalty": 1}
LONG = "请从这段话里找出所有的颜色：" + "红橙黄绿青蓝紫，" * 20


@pytest.fixture(scope="module")
def fresh():
    """A server whose prefix cache only these tests fill."""
    with Server() as server:
        yield server


def complete(server, prompt, **fields):
    answer = server.post("/v1/completions", {"model": "erne-mini", "prompt": prompt, **EXACT, **fields})
    assert answer.status == 200, answer.text
    return answer.json


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


def cached(usage):
    return usage["prompt_tokens_details"]["cached_tokens"]


# The model thinks the same of a token whether it wrote it or is asked about it afterwards: bit for bit.
@pytest.mark.parametrize("case", GREEDY, ids=[case["prompt"][:12] for case in GREEDY])
def test_scoring_an_answer_gives_the_logprobs_it_was_written_with(mini, case):
    prompt = case["prompt_ids"]
    written = complete(mini, prompt, logprobs=3, max_tokens=20)["choices"][0]["logprobs"]
    ids = case["greedy_ids"][:20]
    scored = complete(mini, prompt + ids, echo=True, logprobs=3, max_tokens=0)
    lists = scored["choices"][0]["logprobs"]
    assert lists["token_logprobs"][len(prompt):] == written["token_logprobs"]
    assert lists["top_logprobs"][len(prompt):] == written["top_logprobs"]
    assert lists["tokens"][len(prompt):] == written["tokens"]
    assert {len(values) for values in lists.values()} == {len(prompt) + len(ids)}
    assert lists["token_logprobs"][0] is None and lists["top_logprobs"][0] is None
    assert None not in lists["token_logprobs"][1:]
    assert scored["choices"][0]["finish_reason"] == "length"
    assert scored["usage"]["completion_tokens"] == 0 and scored["usage"]["prompt_tokens"] == len(prompt) + len(ids)


@pytest.mark.parametrize("prompt", ["春天来了，花儿开了。", " two  spaces", "é🦅\n\ttab", "a<|end_of_sentence|>b"])
def test_offsets_of_an_echo(mini, prompt):
    fields = dict(echo=True, ignore_eos=True, skip_special_tokens=False)
    choice = complete(mini, prompt, logprobs=0, max_tokens=6, **fields)["choices"][0]
    lists, text = choice["logprobs"], choice["text"]
    assert text.startswith(prompt) and len(lists["tokens"]) == len(lists["text_offset"])
    assert lists["text_offset"] == sorted(lists["text_offset"])
    for token, offset in zip(lists["tokens"], lists["text_offset"]):
        # A token that is no whole character stands where its character begins.
        assert token.startswith("bytes:") or text[offset:].startswith(token) or offset == len(text), (token, offset)
    assert complete(mini, prompt, max_tokens=0, **fields)["choices"][0] == {**choice, "text": prompt, "logprobs": None}


def test_an_echo_in_a_stream(mini):
    fields = dict(echo=True, logprobs=2, max_tokens=5, n=2, temperature=1, seed=4)
    whole = complete(mini, ["春天来了", "秋天"], **fields)
    answer = mini.post("/v1/completions", {"model": "erne-mini", "prompt": ["春天来了", "秋天"], "stream": True, **EXACT, **fields})
    lists = [{} for _ in whole["choices"]]
    for line in answer.text.split("\n\n")[:-2]:
        (choice,) = json.loads(line.removeprefix("data: "))["choices"]
        for name, values in (choice["logprobs"] or {}).items():
            lists[choice["index"]].setdefault(name, []).extend(values)
    assert lists == [choice["logprobs"] for choice in whole["choices"]]


def test_prompt_logprobs(mini):
    prompt = GREEDY[0]["prompt_ids"]
    echo = complete(mini, prompt, echo=True, logprobs=2, max_tokens=1)["choices"][0]["logprobs"]
    for count in (0, 2):
        choice = complete(mini, prompt, prompt_logprobs=count, max_tokens=1, n=2)["choices"][1]
        entries = choice["prompt_logprobs"]
        assert len(entries) == len(prompt) and entries[0] is None
        for token, entry, logprob, top in zip(prompt[1:], entries[1:], echo["token_logprobs"][1:], echo["top_logprobs"][1:]):
            own = entry[str(token)]
            assert next(iter(entry)) == str(token) and own["logprob"] == logprob
            ranks = [value["rank"] for value in entry.values() if value["rank"] is not None]
            assert sorted(ranks) == list(range(1, count + 1))
            assert own["rank"] is not None or all(value["logprob"] >= logprob for value in entry.values())
            if count == 2:
                assert {value["decoded_token"]: value["logprob"] for value in entry.values()} == top
        # More is asked for the list than for the echo: each has its own number.
        both = complete(mini, prompt, prompt_logprobs=count, echo=True, logprobs=1, max_tokens=1)["choices"][0]
        assert both["prompt_logprobs"] == entries
        assert both["logprobs"]["token_logprobs"] == echo["token_logprobs"]
    # In a chat the list belongs to the answer, whatever the number of choices.
    chat = mini.chat(GREEDY[0]["prompt"], prompt_logprobs=2, n=2, max_tokens=1, **EXACT).json
    whole = complete(mini, prompt, prompt_logprobs=2, max_tokens=1)["choices"][0]["prompt_logprobs"]
    assert chat["prompt_logprobs"] == whole and "prompt_logprobs" not in chat["choices"][0]


def test_usage_tells_what_was_cached(fresh):
    first = fresh.chat(LONG, max_tokens=8, **EXACT).json
    assert cached(first["usage"]) == 0
    again = fresh.chat(LONG, max_tokens=8, **EXACT).json
    assert 0 < cached(again["usage"]) < again["usage"]["prompt_tokens"]
    assert again["choices"] == first["choices"], "the cache changes no answer"
    once = cached(again["usage"])
    events = fresh.stream(LONG, max_tokens=8, stream_options={"include_usage": True}, **EXACT)
    assert events[-1]["usage"] == again["usage"]
    assert content_of(events) == first["choices"][0]["message"]["content"]
    # The prompt of several choices counts once, as prompt_tokens does.
    assert cached(fresh.chat(LONG, max_tokens=8, n=3, **EXACT).json["usage"]) == once
    prompts = ["续写：" + LONG, "改写：" + LONG]
    complete(fresh, prompts, max_tokens=1)
    alone = [cached(complete(fresh, prompt, max_tokens=1)["usage"]) for prompt in prompts]
    assert min(alone) > 0 and cached(complete(fresh, prompts, n=2, max_tokens=1)["usage"]) == sum(alone)


def test_a_prompt_that_is_scored_is_computed(fresh):
    prompt = "打分：" + LONG
    plain = complete(fresh, prompt, max_tokens=4)
    for fields in ({"prompt_logprobs": 0}, {"echo": True, "logprobs": 0}):
        scored = complete(fresh, prompt, max_tokens=4, **fields)
        assert cached(scored["usage"]) == 0 and scored["choices"][0]["text"].endswith(plain["choices"][0]["text"])


def test_a_salt_keeps_prefixes_apart(fresh):
    def ask(**fields):
        return fresh.chat("保密：" + LONG, max_tokens=4, **EXACT, **fields).json

    plain = ask()
    assert cached(plain["usage"]) == 0
    assert cached(ask(cache_salt="alice")["usage"]) == 0
    assert cached(ask(cache_salt="alice")["usage"]) > 0
    salted = ask(cache_salt="bob")
    assert cached(salted["usage"]) == 0 and salted["choices"] == plain["choices"]
    assert cached(ask()["usage"]) > 0


def test_too_late(fresh):
    late = dict(n=32, max_tokens=1900, ignore_eos=True, timeout=0.1)
    answer = fresh.chat("你好", **late)
    assert answer.status == 504 and answer.json["error"]["type"] == "GatewayTimeoutError"
    events = fresh.stream("你好", **late)
    assert events[-1]["error"]["code"] == 504
    wait_until(lambda: fresh.get("/health").json["kv_blocks_used"] == 0)
    assert fresh.chat("你好", max_tokens=2, timeout=60).status == 200


def test_the_servers_own_limit_of_time():
    with Server("--request-timeout", "0.5") as server:
        for fields in ({}, {"timeout": 600}):  # a request may ask for less, not for more
            assert server.chat("你好", n=32, max_tokens=1900, ignore_eos=True, **fields).status == 504
        assert server.chat("你好", max_tokens=1).status == 200


def test_lower_priority_goes_first():
    with Server("--max-num-seqs", 1, "--executor", "reference") as server, concurrent.futures.ThreadPoolExecutor(4) as pool:
        order = []

        def ask(name, **fields):
            assert server.chat(name, ignore_eos=True, **fields).status == 200
            order.append(name)

        def inside(count):
            health = server.get("/health").json
            return health["running"] + health["waiting"] == count

        asked = [pool.submit(ask, "running", max_tokens=50, priority=9)]
        wait_until(lambda: inside(1))
        for name, priority in (("last", 5), ("second", 0), ("first", -3)):
            asked.append(pool.submit(ask, name, max_tokens=2, priority=priority))
            wait_until(lambda: inside(len(asked)) or asked[0].done())
        assert not asked[0].done(), "the queue was not filled in time to see anything"
        for future in asked:
            future.result()
        # What runs does not give way.
        assert order == ["running", "first", "second", "last"]
