"""/v1/completions, /tokenize and /detokenize of the real program with erne-mini."""
import json

import pytest

from erne_server import MINI

GREEDY = json.loads((MINI / "expected_greedy.json").read_text(encoding="utf-8"))["cases"]
EXACT = {"temperature": 0, "repetition_penalty": 1}


def complete(server, prompt, **fields):
    return server.post("/v1/completions", {"model": "erne-mini", "prompt": prompt, **fields})


def texts(answer):
    assert answer.status == 200, answer.text
    return [choice["text"] for choice in answer.json["choices"]]


def tokenize(server, text):
    return server.post("/tokenize", {"prompt": text}).json["tokens"]


def template(prompt):
    return f"<|begin_of_sentence|>User: {prompt}\nAssistant: "


@pytest.mark.parametrize("case", GREEDY, ids=[case["prompt"][:12] for case in GREEDY])
def test_a_prompt_written_out_gives_what_the_chat_gives(mini_exact, case):
    limit = len(case["greedy_ids"])
    assert tokenize(mini_exact, template(case["prompt"])) == case["prompt_ids"]
    for prompt in (template(case["prompt"]), case["prompt_ids"]):
        answer = complete(mini_exact, prompt, max_tokens=limit, **EXACT)
        assert texts(answer) == [case["text"]]
        assert answer.json["usage"] == {"prompt_tokens": len(case["prompt_ids"]), "completion_tokens": limit,
                                        "total_tokens": len(case["prompt_ids"]) + limit,
                                        "prompt_tokens_details": answer.json["usage"]["prompt_tokens_details"]}


def test_four_forms_of_a_prompt(mini):
    spring, autumn = "春天", "秋天的风"
    alone = texts(complete(mini, spring, **EXACT)) + texts(complete(mini, autumn, **EXACT))
    ids = [tokenize(mini, spring), tokenize(mini, autumn)]
    assert texts(complete(mini, [spring, autumn], **EXACT)) == alone
    assert texts(complete(mini, ids, **EXACT)) == alone
    assert texts(complete(mini, ids[1], **EXACT)) == alone[1:]


def test_choices_are_numbered_by_prompt_then_answer(mini):
    fields = dict(n=2, seed=5, max_tokens=8)
    answer = complete(mini, ["春天", "秋天"], **fields).json
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    alone = texts(complete(mini, "春天", **fields)) + texts(complete(mini, "秋天", **fields))
    assert [choice["text"] for choice in answer["choices"]] == alone
    assert answer["usage"]["prompt_tokens"] == len(tokenize(mini, "春天")) + len(tokenize(mini, "秋天"))
    assert answer["object"] == "text_completion" and answer["id"].startswith("cmpl-")


def test_sixteen_tokens_by_default(mini):
    answer = complete(mini, "春天", ignore_eos=True).json
    assert answer["usage"]["completion_tokens"] == 16 and answer["choices"][0]["finish_reason"] == "length"


def test_echo(mini):
    plain = texts(complete(mini, ["春天", "秋天"], **EXACT))
    assert texts(complete(mini, ["春天", "秋天"], echo=True, **EXACT)) == ["春天" + plain[0], "秋天" + plain[1]]
    assert texts(complete(mini, tokenize(mini, "春天"), echo=True, **EXACT)) == ["春天" + plain[0]]


@pytest.mark.parametrize("echo", [False, True])
def test_a_stream_says_the_same(mini, echo):
    fields = dict(max_tokens=12, seed=2, n=2, echo=echo)
    answer = complete(mini, ["春天", "秋天"], stream=True, stream_options={"include_usage": True}, **fields)
    lines = [line for line in answer.text.split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    events = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    said, ends = [""] * 4, {}
    for event in events[:-1]:
        (choice,) = event["choices"]
        said[choice["index"]] += choice["text"]
        if choice["finish_reason"]:
            ends[choice["index"]] = choice["finish_reason"]
    whole = complete(mini, ["春天", "秋天"], **fields).json
    assert said == [choice["text"] for choice in whole["choices"]]
    assert ends == {choice["index"]: choice["finish_reason"] for choice in whole["choices"]}
    assert events[-1]["choices"] == [] and events[-1]["usage"] == whole["usage"]


def test_logprobs(mini):
    choice = complete(mini, "春天来了，", logprobs=3, max_tokens=5, **EXACT).json["choices"][0]
    lists = choice["logprobs"]
    assert set(lists) == {"tokens", "token_logprobs", "top_logprobs", "text_offset"}
    assert {len(values) for values in lists.values()} == {5}
    assert "".join(lists["tokens"]) == choice["text"]
    for i, token in enumerate(lists["tokens"]):
        assert lists["top_logprobs"][i][token] == lists["token_logprobs"][i] == max(lists["top_logprobs"][i].values())
        assert len(lists["top_logprobs"][i]) == 3
        assert choice["text"][lists["text_offset"][i]:].startswith(token)
    zero = complete(mini, "春天来了，", logprobs=0, max_tokens=5, **EXACT).json["choices"][0]["logprobs"]
    assert zero["token_logprobs"] == lists["token_logprobs"] and {len(top) for top in zero["top_logprobs"]} == {1}


BAD = {
    "no prompt": ({"prompt": None}, "prompt"),
    "empty prompt": ({"prompt": ""}, "prompt"),
    "empty list": ({"prompt": []}, "prompt"),
    "a number": ({"prompt": 5}, "prompt"),
    "mixed ids": ({"prompt": [1, "x"]}, "prompt[1]"),
    "id outside the vocabulary": ({"prompt": [1, 99999999]}, "prompt"),
    "second id outside": ({"prompt": [[1], [99999999]]}, "prompt[1]"),
    "negative id": ({"prompt": [[1], [-5]]}, "prompt[1][0]"),
    "suffix": ({"suffix": "x"}, "suffix"),
    "best_of below n": ({"n": 3, "best_of": 2}, "best_of"),
    "logprobs above 20": ({"logprobs": 21}, "logprobs"),
    "max_tokens": ({"max_tokens": 0}, "max_tokens"),
    "prompt_logprobs in a stream": ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
    "prompt_logprobs above 20": ({"prompt_logprobs": 21}, "prompt_logprobs"),
    "a priority of another kind": ({"priority": "high"}, "priority"),
    "an empty salt": ({"cache_salt": ""}, "cache_salt"),
    "no time at all": ({"timeout": 0}, "timeout"),
    "too long": ({"prompt": "好" * 5000}, "prompt"),
    "answer too long": ({"max_tokens": 5000}, "max_tokens"),
    "one of the prompts too long": ({"prompt": ["好", "好" * 5000]}, "prompt[1]"),
    "too many answers": ({"prompt": ["x"] * 200, "n": 60}, "prompt"),
}


@pytest.mark.parametrize("fields, param", BAD.values(), ids=BAD.keys())
def test_bad_requests_name_the_field(mini, fields, param):
    answer = mini.post("/v1/completions", {"model": "erne-mini", "prompt": "hi", **fields})
    assert answer.status == 400, answer.text
    assert answer.json["error"]["param"] == param, answer.text
    assert mini.get("/health").json["kv_blocks_used"] == 0


def test_a_wrong_model(mini):
    assert mini.post("/v1/completions", {"model": "gpt-9", "prompt": "hi"}).status == 404
    assert mini.post("/tokenize", {"model": "gpt-9", "prompt": "hi"}).status == 404


@pytest.mark.parametrize("text", ["", "Hello 你好", " two  spaces ", "🦅\n\ttab", "a<|end_of_sentence|>b", "x" * 5000])
def test_tokenize_and_back(mini, text):
    answer = mini.post("/tokenize", {"model": "erne-mini", "prompt": text, "return_token_strs": True}).json
    assert answer["count"] == len(answer["tokens"]) == len(answer["token_strs"])
    assert answer["max_model_len"] == 2048
    assert mini.post("/detokenize", {"model": "erne-mini", "tokens": answer["tokens"]}).json == {"prompt": text}
    assert mini.post("/tokenize", {"prompt": text}).json["token_strs"] is None


def test_tokenize_messages(mini):
    case = GREEDY[0]
    messages = [{"role": "user", "content": case["prompt"]}]
    assert mini.post("/tokenize", {"messages": messages}).json["tokens"] == case["prompt_ids"]
    open_ended = mini.post("/tokenize", {"messages": messages, "add_generation_prompt": False}).json["tokens"]
    assert open_ended == case["prompt_ids"][:len(open_ended)] and len(open_ended) < len(case["prompt_ids"])


@pytest.mark.parametrize("path, body", [
    ("/tokenize", {}), ("/tokenize", {"prompt": 5}), ("/tokenize", {"prompt": "x", "messages": []}),
    ("/tokenize", {"messages": []}), ("/detokenize", {}), ("/detokenize", {"tokens": "x"}),
    ("/detokenize", {"tokens": [1.5]}), ("/detokenize", {"tokens": [-1]}), ("/detokenize", {"tokens": [99999999]})])
def test_bad_tokenize_requests(mini, path, body):
    assert mini.post(path, body).status == 400
    assert mini.get(path).status == 405
