"""Answers of a given form, from outside, with erne-mini, which by itself says nothing of the kind."""
import json
import random
import re
import threading

import jsonschema
import pytest

from erne_server import Server, content_of

PERSON = {"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 12},
    "age": {"type": "integer", "minimum": 0, "maximum": 130},
    "tags": {"type": "array", "items": {"enum": ["红", "blue", "x"]}, "maxItems": 3},
    "born": {"type": "string", "format": "date"}},
    "required": ["name", "age", "tags"], "additionalProperties": False}
GRAMMAR = 'root ::= "(" root ")" | [0-9]+ ("+" root)?'
FORMS = {
    "json_object": ({"response_format": {"type": "json_object"}}, lambda text: isinstance(json.loads(text), dict)),
    "json_schema": ({"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON}}},
                    lambda text: jsonschema.validate(json.loads(text), PERSON) is None),
    "structured json": ({"structured_outputs": {"json": json.dumps(PERSON)}},
                        lambda text: jsonschema.validate(json.loads(text), PERSON) is None),
    "regex": ({"structured_outputs": {"regex": "(是|否)，因为[一-龥]{2,8}。"}},
              lambda text: re.fullmatch("(是|否)，因为[一-龥]{2,8}。", text)),
    "choice": ({"structured_outputs": {"choice": ["positive", "negative"]}},
               lambda text: text in ("positive", "negative")),
    "grammar": ({"structured_outputs": {"grammar": GRAMMAR}},
                lambda text: re.fullmatch(r"[0-9+()]+", text) and text.count("(") == text.count(")")),
    "guided_json": ({"guided_json": PERSON}, lambda text: jsonschema.validate(json.loads(text), PERSON) is None),
    "guided_regex": ({"guided_regex": "[a-c]{3}"}, lambda text: re.fullmatch("[a-c]{3}", text)),
    "guided_choice": ({"guided_choice": ["甲", "乙"]}, lambda text: text in ("甲", "乙")),
    "guided_grammar": ({"guided_grammar": 'root ::= "ab"+'}, lambda text: re.fullmatch("(ab)+", text)),
}
PROMPTS = ["介绍一个人", "write json", "今天天气怎么样？", "1+1", "给我讲个故事", "}", '{"name":', "😀"]


@pytest.mark.parametrize("fields, holds", FORMS.values(), ids=FORMS.keys())
def test_each_form_is_kept_at_both_doors(mini, fields, holds):
    for seed in range(3):
        sampling = {"temperature": 1.5, "seed": seed, "max_tokens": 90}
        answer = mini.chat("随便说点什么", n=2, **sampling, **fields).json
        texts = [choice["message"]["content"] for choice in answer["choices"]]
        assert all(choice["finish_reason"] in ("stop", "length") for choice in answer["choices"])
        events = mini.stream("随便说点什么", **sampling, **fields)
        assert content_of(events) == texts[0]
        answer = mini.post("/v1/completions", {"model": "erne-mini", "prompt": "答：", **sampling, **fields}).json
        texts.append(answer["choices"][0]["text"])
        assert all(holds(text) for text in texts), texts


def test_the_end_comes_with_the_form(mini):
    answer = mini.chat("hi", temperature=1, seed=1, guided_choice=["yes"]).json
    assert answer["choices"][0]["message"]["content"] == "yes"
    assert answer["choices"][0]["finish_reason"] == "stop" and answer["choices"][0]["stop_reason"] is None
    # Nothing may follow: the end takes no token, and needs no end token.
    ignoring = mini.chat("hi", temperature=1, seed=1, guided_choice=["yes"], ignore_eos=True).json
    assert ignoring["usage"] == answer["usage"]
    assert ignoring["choices"][0]["message"]["content"] == "yes"


@pytest.mark.parametrize("budget", [30, 33, 37, 45, 64])
def test_every_budget_gives_whole_json(mini, budget):
    for seed in range(6):
        answer = mini.chat("介绍一个人", temperature=2, seed=seed, max_tokens=budget, guided_json=PERSON).json
        jsonschema.validate(json.loads(answer["choices"][0]["message"]["content"]), PERSON)
        assert answer["usage"]["completion_tokens"] <= budget


def test_a_budget_too_small_for_any_answer_is_refused(mini):
    answer = mini.chat("hi", max_tokens=3, guided_json=PERSON)
    assert answer.status == 400 and answer.json["error"]["param"] == "max_tokens"
    assert re.search(r"takes \d+ tokens; max_tokens is 3", answer.json["error"]["message"])


def test_stop_strings_and_tokens_end_a_form_early(mini):
    answer = mini.chat("hi", temperature=0, guided_regex="a{40}", stop=["aaaaa"]).json["choices"][0]
    assert answer["message"]["content"] == "" and answer["stop_reason"] == "aaaaa"


def test_a_circle_is_brought_to_its_end(mini):
    rule = {"max_pattern_size": 4, "min_count": 3}
    answer = mini.chat("hi", temperature=0, guided_regex="(ab){30,60}c", repetition_detection=rule).json
    text = answer["choices"][0]["message"]["content"]
    assert re.fullmatch("(ab){30}c", text) and answer["choices"][0]["finish_reason"] == "stop"


BAD = {
    "keyword": ({"guided_json": {"type": "object", "properties": {"a": {"uniqueItems": True}}}}, "guided_json",
                "#/properties/a/uniqueItems"),
    "schema": ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "colour"}}}},
               "response_format.json_schema.schema", "#/type"),
    "regex": ({"structured_outputs": {"regex": "(a"}}, "structured_outputs.regex", "byte 2"),
    "grammar": ({"guided_grammar": "root ::= other"}, "guided_grammar", "not defined"),
    "left recursion": ({"guided_grammar": 'root ::= root "a" | "b"'}, "guided_grammar", "left recursion"),
    "choice": ({"guided_choice": []}, "guided_choice", "1 to"),
    "too large": ({"guided_regex": "(a|b)*a(a|b){30}"}, "guided_regex", "too large"),
    "too deep": ({"guided_regex": "(" * 200 + "a" + ")" * 200}, "guided_regex", "too deeply"),
    "two forms": ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice", "guided_regex"),
}


@pytest.mark.parametrize("fields, param, says", BAD.values(), ids=BAD.keys())
def test_what_cannot_be_done_is_a_400_that_says_why(mini, fields, param, says):
    answer = mini.chat("hi", **fields)
    assert answer.status == 400
    assert answer.json["error"]["param"] == param and says in answer.json["error"]["message"]


def test_company_speculation_and_preemption_change_nothing():
    """Alone, then in a crowd that a small cache makes give way, with guesses and without."""
    fields = [{"temperature": 1, "seed": seed, "max_tokens": 120, **FORMS[name][0]}
              for seed, name in enumerate(["json_schema", "grammar", "json_object", "regex"] * 3)]

    def ask(server, index, texts):
        texts[index] = server.chat(f"第{index}题", **fields[index]).json["choices"][0]["message"]["content"]

    with Server("--speculative-config", "off") as server:
        alone = [None] * len(fields)
        for index in range(len(fields)):
            ask(server, index, alone)
    with Server("--kv-cache-memory", "3M", "--max-model-len", "256") as server:
        together = [None] * len(fields)
        threads = [threading.Thread(target=ask, args=(server, index, together)) for index in range(len(fields))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert together == alone


def json_under_schema(server, count):
    rng = random.Random(count)
    for seed in range(count):
        prompt = "".join(rng.choice(PROMPTS) for _ in range(rng.randint(1, 4)))
        answer = server.chat(prompt, temperature=rng.choice([0, 0.7, 1, 2]), seed=seed,
                             max_tokens=rng.randint(40, 160), guided_json=PERSON)
        assert answer.status == 200, answer.text
        jsonschema.validate(json.loads(answer.json["choices"][0]["message"]["content"]), PERSON)


def test_random_prompts_give_valid_json(mini):
    json_under_schema(mini, 30)


@pytest.mark.slow
def test_a_thousand_random_prompts_give_valid_json(mini):
    json_under_schema(mini, 1000)
