"""Tools and reasoning with the official client, against the real program and a model that writes given answers."""
import json

import openai
import pytest

from erne_server import Server
from scripted_model import write_scripted_model

TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("weather", "clock")]
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "北京", "note": "</tool_call> 👩‍👩‍👧"}}\n</tool_call>'
QWEN = ("{% for m in messages %}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.arguments.city }}{{ c.id }}</tool_call>"
        "{% endfor %}{% if m.role == 'tool' %}{{ m.tool_call_id }}{% endif %}{{ m.content }}{% endfor %}"
        "{# <think></think> #}")
ANSWERS = {
    "A": f"看一下。\n{CALL}",
    "B": CALL + '\n<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>',
    "C": '好 <tool_call>{"name": "weather", "argum</tool_call> 完',
    "D": "<think>\n想一想，\n两行。\n</think>\n\n答案👩‍👩‍👧是四",
    "E": "平常的回答 <thin",
}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scripted") / "qwen"
    write_scripted_model(folder, QWEN, ANSWERS)
    with Server("--model", folder) as server, openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def ask(client, key, **fields):
    return client.chat.completions.create(model="", messages=[{"role": "user", "content": f"question {key}"}], **fields)


def whole(client, key, **fields):
    answer = ask(client, key, **fields)
    message = answer.choices[0].message
    calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []]
    return {"content": message.content or "", "reasoning": getattr(message, "reasoning_content", None) or "", "calls": calls,
            "finish": answer.choices[0].finish_reason}


def streamed(client, key, **fields):
    """The same out of a stream; the pieces come in the order and shape of OpenAI's API."""
    out = {"content": "", "reasoning": "", "calls": [], "finish": None}
    calls = {}
    for chunk in ask(client, key, stream=True, **fields):
        choice = chunk.choices[0]
        assert "\ufffd" not in choice.to_json()
        out["content"] += choice.delta.content or ""
        out["reasoning"] += getattr(choice.delta, "reasoning_content", None) or ""
        for piece in choice.delta.tool_calls or []:
            if piece.index not in calls:
                assert piece.index == len(calls) and piece.id and piece.type == "function" and piece.function.name
                calls[piece.index] = [piece.function.name, ""]
            else:
                assert piece.id is None and piece.function.name is None
            calls[piece.index][1] += piece.function.arguments
        out["finish"] = choice.finish_reason or out["finish"]
    out["calls"] = [(name, json.loads(arguments)) for name, arguments in calls.values()]
    return out


WEATHER = ("weather", {"city": "北京", "note": "</tool_call> 👩‍👩‍👧"})
EXPECTED = {
    "A": {"content": "看一下。", "reasoning": "", "calls": [WEATHER], "finish": "tool_calls"},
    "B": {"content": "", "reasoning": "", "calls": [WEATHER, ("clock", {})], "finish": "tool_calls"},
    "C": {"content": ANSWERS["C"], "reasoning": "", "calls": [], "finish": "stop"},
    "D": {"content": "答案👩‍👩‍👧是四", "reasoning": "想一想，\n两行。", "calls": [], "finish": "stop"},
    "E": {"content": ANSWERS["E"], "reasoning": "", "calls": [], "finish": "stop"},
}


@pytest.mark.parametrize("how", [whole, streamed])
@pytest.mark.parametrize("key", EXPECTED)
def test_answers(client, key, how):
    assert how(client, key, tools=TOOLS) == EXPECTED[key]


@pytest.mark.parametrize("how", [whole, streamed])
def test_without_tools_or_with_none_calls_are_content(client, how):
    for fields in ({}, {"tools": TOOLS, "tool_choice": "none"}):
        answer = how(client, "A", **fields)
        assert answer["content"] == ANSWERS["A"] and not answer["calls"] and answer["finish"] == "stop"


@pytest.mark.parametrize("how", [whole, streamed])
def test_one_call_where_parallel_calls_are_off(client, how):
    assert how(client, "B", tools=TOOLS, parallel_tool_calls=False)["calls"] == [WEATHER]


@pytest.mark.parametrize("how", [whole, streamed])
def test_a_call_cut_off_is_content(client, how):
    answer = how(client, "A", tools=TOOLS, max_tokens=12)
    assert answer["finish"] == "length" and not answer["calls"]
    assert answer["content"].startswith("看一下。\n<tool_call>") and ANSWERS["A"].startswith(answer["content"])


def test_reasoning_is_counted_and_can_be_left_out(client):
    usage = ask(client, "D").usage
    assert 0 < usage.completion_tokens_details.reasoning_tokens < usage.completion_tokens
    message = ask(client, "D", extra_body={"include_reasoning": False}).choices[0].message
    assert message.content == EXPECTED["D"]["content"] and message.reasoning is None
    assert ask(client, "E").usage.completion_tokens_details.reasoning_tokens == 0


def test_calls_and_their_results_go_back_into_the_template(client):
    message = ask(client, "A", tools=TOOLS).choices[0].message
    history = [{"role": "user", "content": "x"}, message.to_dict(),
               {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "晴 E"}]
    answer = client.chat.completions.create(model="", messages=history, tools=TOOLS, extra_body={"return_prompt_text": True})
    id = message.tool_calls[0].id
    assert answer.prompt_text == f"x<tool_call>北京{id}</tool_call>看一下。{id}晴 E"
    assert answer.choices[0].message.content == ANSWERS["E"]


@pytest.mark.parametrize("how", [whole, streamed])
def test_reasoning_that_the_prompt_opens(tmp_path, how):
    text = "想\n</think>\n\n<response>\n好\n</response>\n\n" + CALL + "\n"
    write_scripted_model(tmp_path / "ernie", "{{ messages[-1].content }}<|im_start|>assistant\n<think>\n"
                         "{#</think><response><tool_call>#}", {"\n": text}, control=("<think>", "</think>", "<tool_call>"))
    with Server("--model", tmp_path / "ernie") as server, openai.OpenAI(base_url=f"{server.url}/v1", api_key="x") as client:
        assert how(client, "A", tools=TOOLS) == {"content": "好", "reasoning": "想", "calls": [WEATHER], "finish": "tool_calls"}


@pytest.mark.parametrize("form, text", {
    "mistral": '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "北京"}}]',
    "llama3_json": '{"name": "weather", "parameters": {"city": "北京"}}',
    "json": '[{"name": "weather", "arguments": {"city": "北京"}}]',
}.items())
def test_forms_by_flag(tmp_path, form, text):
    write_scripted_model(tmp_path / form, "{{ messages[-1].content }}", {"A": text}, control=("[TOOL_CALLS]",))
    with Server("--model", tmp_path / form, "--tool-call-parser", form) as server, \
            openai.OpenAI(base_url=f"{server.url}/v1", api_key="x") as client:
        for how in (whole, streamed):
            answer = how(client, "A", tools=TOOLS)
            assert answer["calls"] == [("weather", {"city": "北京"})] and answer["content"] == ""


PLACE = {"type": "object", "required": ["city", "days"], "$defs": {"days": {"type": "integer", "minimum": 1, "maximum": 7}},
         "properties": {"city": {"enum": ["北京", "Zürich"]}, "days": {"$ref": "#/$defs/days"}}}
FORCED = [{"type": "function", "function": {"name": "weather", "parameters": PLACE}}, TOOLS[1]]
NAMED = {"type": "function", "function": {"name": "weather"}}


def test_forced_calls_follow_the_parameters(mini_client):
    """erne-mini knows nothing of tools: what it writes is what the form lets through."""
    for choice, parallel, seed in (("required", True, 1), ("required", False, 2), (NAMED, True, 3), (NAMED, True, 4)):
        for how in (whole, streamed):
            answer = how(mini_client, "weather?", tools=FORCED, tool_choice=choice, parallel_tool_calls=parallel, temperature=1,
                         seed=seed, max_tokens=200)
            assert answer["content"] == "" and answer["finish"] == "tool_calls" and answer["calls"]
            assert len(answer["calls"]) == 1 or (parallel and choice == "required")
            for name, arguments in answer["calls"]:
                if name == "weather":
                    assert set(arguments) == {"city", "days"}
                    assert arguments["city"] in ("北京", "Zürich") and 1 <= arguments["days"] <= 7
                else:
                    assert name == "clock" and choice == "required" and isinstance(arguments, dict)


def test_a_choice_that_cannot_be_met_is_a_400(mini_client):
    for fields, said in (({"tool_choice": "required"}, "needs `tools`"),
                         ({"tools": FORCED, "tool_choice": {"type": "function", "function": {"name": "stock"}}}, "stock"),
                         ({"tools": FORCED, "tool_choice": NAMED, "response_format": {"type": "json_object"}}, "response_format")):
        with pytest.raises(openai.BadRequestError) as fault:
            ask(mini_client, "?", **fields)
        assert fault.value.param == "tool_choice" and said in fault.value.message


@pytest.fixture(scope="module")
def mini_client(mini):
    with openai.OpenAI(base_url=f"{mini.url}/v1", api_key="none", max_retries=0) as client:
        yield client
