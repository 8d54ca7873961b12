"""The sampling fields of a request, seen from outside, with erne-mini."""
import math

import pytest

from erne_server import Server, content_of

PROMPT = "写一首关于春天的七言绝句"


def text(answer):
    assert answer.status == 200, answer.text
    return answer.json["choices"][0]["message"]["content"]


def ids(server, words):
    return server.post("/tokenize", {"prompt": words, "add_special_tokens": False}).json["tokens"]


def logprobs(server, **fields):
    answer = server.chat(PROMPT, logprobs=True, **fields)
    assert answer.status == 200, answer.text
    return answer.json["choices"][0]["logprobs"]["content"]


def test_logprobs_are_of_openais_form(mini):
    answer = mini.chat(PROMPT, logprobs=True, top_logprobs=5, temperature=0, repetition_penalty=1).json
    choice = answer["choices"][0]
    tokens = choice["logprobs"]["content"]
    assert len(tokens) == answer["usage"]["completion_tokens"]
    for token in tokens:
        assert set(token) == {"token", "logprob", "bytes", "top_logprobs"}
        assert len(token["top_logprobs"]) == 5
        ranked = [candidate["logprob"] for candidate in token["top_logprobs"]]
        assert ranked == sorted(ranked, reverse=True) and all(value <= 0 for value in ranked)
        assert sum(map(math.exp, ranked)) <= 1 + 1e-5  # five roundings to float32
        # Greedy: the token is the most probable one.
        assert {key: token[key] for key in ("token", "logprob", "bytes")} == token["top_logprobs"][0]
    said = b"".join(bytes(token["bytes"] or []) for token in tokens)
    assert said.decode() == choice["message"]["content"]


def test_streamed_logprobs_are_the_same(mini):
    whole = mini.chat(PROMPT, logprobs=True, top_logprobs=2, seed=4, max_tokens=40).json["choices"][0]
    events = mini.stream(PROMPT, logprobs=True, top_logprobs=2, seed=4, max_tokens=40)
    streamed = [token for event in events if event["choices"] and event["choices"][0]["logprobs"]
                for token in event["choices"][0]["logprobs"]["content"]]
    assert streamed == whole["logprobs"]["content"]
    assert content_of(events) == whole["message"]["content"]


def test_logprobs_do_not_change_the_answer(mini):
    assert text(mini.chat(PROMPT, seed=4)) == text(mini.chat(PROMPT, seed=4, logprobs=True, top_logprobs=20))
    assert mini.chat(PROMPT, max_tokens=2).json["choices"][0]["logprobs"] is None
    assert all(token["top_logprobs"] == [] for token in logprobs(mini, max_tokens=3))


def test_logit_bias_commands_and_bans(mini):
    wanted = ids(mini, "春")
    assert len(wanted) == 1
    assert text(mini.chat(PROMPT, logit_bias={wanted[0]: 100}, max_tokens=5)) == "春" * 5
    first = logprobs(mini, temperature=0, repetition_penalty=1, max_tokens=1)[0]
    (banned,) = ids(mini, first["token"])
    other = logprobs(mini, temperature=0, repetition_penalty=1, max_tokens=1, logit_bias={banned: -100})[0]
    assert other["token"] != first["token"]


def test_allowed_token_ids(mini):
    allowed = ids(mini, "春") + ids(mini, "秋")
    answer = text(mini.chat(PROMPT, allowed_token_ids=allowed, max_tokens=30, temperature=2, seed=1))
    assert len(answer) == 30 and set(answer) <= {"春", "秋"}
    answer = mini.chat(PROMPT, allowed_token_ids=allowed, bad_words=["春", "秋"], max_tokens=3)
    assert answer.status == 400 and "every token is banned" in answer.json["error"]["message"]


def test_bad_words(mini):
    plain = text(mini.chat("你好，你是谁？", temperature=0, max_tokens=40))
    word = plain[:2]
    assert word not in text(mini.chat("你好，你是谁？", temperature=0, max_tokens=40, bad_words=[word]))


def test_penalties_of_the_answer(mini):
    """Of two tokens, what came often is held back by a frequency penalty and drawn on by a negative one."""
    allowed = ids(mini, "春") + ids(mini, "秋")

    def say(**fields):
        return text(mini.chat(PROMPT, allowed_token_ids=allowed, temperature=0, repetition_penalty=1, max_tokens=30, **fields))
    plain = say()
    assert set(plain) == {"春", "秋"} and abs(plain.count("春") - plain.count("秋")) > 4
    balanced = say(frequency_penalty=2)
    assert abs(balanced.count("春") - balanced.count("秋")) <= 2
    assert len(set(say(frequency_penalty=-2))) == 1
    assert say(presence_penalty=2).index("秋") < plain.index("秋")  # 春 pays for being there, 秋 does not yet


def test_min_p_of_one_is_greedy(mini):
    greedy = text(mini.chat(PROMPT, temperature=0, max_tokens=40))
    assert text(mini.chat(PROMPT, temperature=1.5, min_p=1, seed=5, max_tokens=40)) == greedy


def test_min_tokens_holds_ends_back(mini):
    answer = mini.chat("你好", temperature=0).json
    ended = answer["usage"]["completion_tokens"]
    assert answer["choices"][0]["finish_reason"] == "stop"
    longer = mini.chat("你好", temperature=0, min_tokens=ended + 10, max_tokens=ended + 20).json
    assert longer["usage"]["completion_tokens"] >= ended + 10
    stop = answer["choices"][0]["message"]["content"][1]
    held = mini.chat("你好", temperature=0, stop=stop, min_tokens=5).json
    assert held["usage"]["completion_tokens"] >= 5


def test_n_answers_are_those_of_the_seeds_that_follow(mini):
    several = mini.chat(PROMPT, n=3, seed=11, max_tokens=30).json["choices"]
    assert [choice["index"] for choice in several] == [0, 1, 2]
    alone = [text(mini.chat(PROMPT, seed=11 + i, max_tokens=30)) for i in range(3)]
    assert [choice["message"]["content"] for choice in several] == alone


def test_a_loop_is_ended_when_asked_for(mini):
    (token,) = ids(mini, "哈")
    rule = {"max_pattern_size": 4, "min_pattern_size": 1, "min_count": 6}
    answer = mini.chat(PROMPT, logit_bias={token: 100}, max_tokens=100, repetition_detection=rule).json
    choice = answer["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"], choice["stop_reason"]) == ("哈" * 6, "stop", "repetition")


def test_a_loop_ends_an_answer_of_open_length_and_no_other(mini):
    (token,) = ids(mini, "哈")
    answer = mini.chat(PROMPT, logit_bias={token: 100}).json
    assert answer["choices"][0]["stop_reason"] == "repetition" and answer["usage"]["completion_tokens"] == 1024
    named = mini.chat(PROMPT, logit_bias={token: 100}, max_tokens=1200).json
    assert named["choices"][0]["finish_reason"] == "length" and named["usage"]["completion_tokens"] == 1200


def test_generation_config_flag(tmp_path):
    fields = dict(max_tokens=40, seed=3)
    (tmp_path / "generation_config.json").write_text('{"temperature": 0, "repetition_penalty": 1.0}')
    with Server("--generation-config", "vllm") as server:
        openai_defaults = text(server.chat(PROMPT, **fields))
        assert openai_defaults == text(server.chat(PROMPT, temperature=1, top_p=1, top_k=0, repetition_penalty=1, **fields))
        greedy = text(server.chat(PROMPT, temperature=0, **fields))
    with Server("--generation-config", tmp_path) as server:
        assert text(server.chat(PROMPT, **fields)) == greedy
        assert text(server.chat(PROMPT, temperature=1, **fields)) == openai_defaults


def test_generation_config_of_no_folder():
    server = Server("--generation-config", "/no/such/folder", wait=False)
    with pytest.raises(AssertionError, match="/no/such/folder"), server:
        server.wait_ready()
