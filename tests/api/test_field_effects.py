"""Conformance: each request field that is honoured changes the answer as documented, asked for with the official client.

An effect is a function for the fields in its decorator. test_every_field_has_an_effect reads /openapi.json: a field without one
fails, so a new field needs a test.
"""
import time

import openai
import pytest

from erne_server import Server
from openai_door import EXACT, PROMPT, Door, joined, tokens_of

# Forms of answers, tools and reasoning have test files of their own.
ELSEWHERE = {"response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
             "guided_decoding_backend", "guided_whitespace_pattern", "tools", "tool_choice", "parallel_tool_calls",
             "reasoning_effort", "include_reasoning", "thinking_token_budget", "functions", "function_call"}
EFFECTS = []


def effect(*fields, on=("chat", "completions")):
    def register(function):
        EFFECTS.extend((endpoint, fields, function) for endpoint in on)
        return function
    return register


@pytest.fixture(scope="module")
def server():
    with Server("--trust-request-chat-template") as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def ids(door, text):
    body = {"prompt": text, "add_special_tokens": False}
    return door.client.post("/../tokenize", body=body, cast_to=object)["tokens"]


@effect("model")
def known_names_alone(door):
    assert door.ask(model="ERNE-Mini").answer.model == "erne-mini"
    with pytest.raises(openai.NotFoundError):
        door.ask(model="gpt-9")


@effect("messages", on=("chat",))
@effect("prompt", on=("completions",))
def what_is_asked(door):
    assert door.ask("你好", **EXACT).text != door.ask(PROMPT, **EXACT).text


@effect("stream")
def chunks_of_the_same_text(door):
    chunks = door.stream(seed=1)
    assert len(chunks) > 3 and joined(chunks) == door.ask(seed=1).text


@effect("stream_options", "stream_options.include_usage", "stream_options.continuous_usage_stats")
def usage_in_streams(door):
    assert all(chunk.usage is None for chunk in door.stream())
    last = door.stream(stream_options={"include_usage": True}, ignore_eos=True)
    assert last[-1].usage.completion_tokens == 16 and last[-1].choices == []
    assert all(chunk.usage is None for chunk in last[:-1])
    every = door.stream(stream_options={"include_usage": True, "continuous_usage_stats": True}, ignore_eos=True)
    counts = [chunk.usage.completion_tokens for chunk in every]
    assert counts == sorted(counts) and counts[-1] == 16 and len(set(counts)) > 8


@effect("stream_options.resumable_seconds")
def a_stream_to_come_back_to(door):
    chunks = door.stream(stream_options={"resumable_seconds": 30}, seed=2)
    again = door.client.get(f"/streams/{chunks[0].id}?last_event_id=1", cast_to=type(chunks[0]), stream=True,
                            stream_cls=openai.Stream[type(chunks[0])])
    assert list(again) == chunks[1:]
    with pytest.raises(openai.NotFoundError):
        door.client.get(f"/streams/{door.stream(seed=2)[0].id}", cast_to=object)


@effect("stream_interval")
def tokens_in_a_chunk(door):
    fields = dict(ignore_eos=True, return_token_ids=True, seed=3, max_tokens=10)
    sizes = [len(choice.token_ids) for chunk in door.stream(stream_interval=4, **fields) for choice in chunk.choices
             if getattr(choice, "token_ids", None)]
    assert sizes == [1, 4, 4, 1]


@effect("max_tokens")
def the_longest_answer(door):
    short = door.ask(max_tokens=3, ignore_eos=True)
    assert short.count == 3 and short.choice.finish_reason == "length"


@effect("max_completion_tokens", on=("chat",))
def its_newer_name(door):
    assert door.ask(max_completion_tokens=3, ignore_eos=True).count == 3


@effect("min_tokens")
def the_shortest_answer(door):
    first = door.ask(max_tokens=1, return_token_ids=True, **EXACT).choice.token_ids
    stopped = dict(stop_token_ids=first, max_tokens=12, **EXACT)
    assert door.ask(**stopped).count == 1
    assert door.ask(min_tokens=5, **stopped).count > 5


@effect("n", "seed")
def several_answers(door):
    answers = door.send(n=3, seed=7, temperature=1.2).choices
    assert [choice.index for choice in answers] == [0, 1, 2]
    alone = [door.ask(seed=7 + i, temperature=1.2).text for i in range(3)]
    assert [choice.message.content if door.is_chat else choice.text for choice in answers] == alone
    assert len(set(alone)) == 3


@effect("best_of")
def the_most_probable_answers(door):
    fields = dict(seed=7, temperature=1.5, ignore_eos=True, max_tokens=6, **door.logprobs())
    mean = {}
    for choice in door.send(n=4, **fields).choices:
        values = ([each.logprob for each in choice.logprobs.content] if door.is_chat else choice.logprobs.token_logprobs)
        mean[tuple(tokens_of(choice))] = sum(values) / len(values)
    best = door.send(n=2, best_of=4, **fields)
    assert [tuple(tokens_of(choice)) for choice in best.choices] == sorted(mean, key=mean.get, reverse=True)[:2]
    assert best.usage.completion_tokens == 24, "all that were computed"
    assert door.ask(best_of=2, seed=1).choice.logprobs is None, "nobody asked for them"


@effect("temperature")
def greedy_or_drawn(door):
    assert len({door.ask(seed=seed, **EXACT).text for seed in range(4)}) == 1
    assert len({door.ask(seed=seed, temperature=1.5).text for seed in range(4)}) > 1


@effect("top_p", "top_k", "min_p")
def what_is_drawn_from(door):
    greedy = door.ask(**EXACT).text
    for field, value in (("top_p", 1e-6), ("top_k", 1), ("min_p", 1)):
        assert door.ask(temperature=2, repetition_penalty=1, seed=5, **{field: value}).text == greedy, field
    assert door.ask(temperature=2, repetition_penalty=1, top_k=0, seed=5).text != greedy


@effect("repetition_penalty", "presence_penalty", "frequency_penalty")
def what_came_before(door):
    allowed = ids(door, "春") + ids(door, "秋")
    fields = dict(allowed_token_ids=allowed, temperature=0, max_tokens=20)

    def uneven(**penalties):
        text = door.ask(**{"repetition_penalty": 1} | fields | penalties).text
        return abs(text.count("春") - text.count("秋"))
    assert uneven(frequency_penalty=2) <= 2 < uneven(frequency_penalty=-2) == 20
    assert uneven(presence_penalty=-2) == 20
    assert uneven(repetition_penalty=0.01) == 20


@effect("logit_bias")
def a_token_that_is_wanted(door):
    (spring,) = ids(door, "春")
    assert door.ask(logit_bias={str(spring): 100}, max_tokens=4).text == "春" * 4


@effect("bad_words")
def words_that_are_not_wanted(door):
    word = door.ask(**EXACT).text[:2]
    assert word not in door.ask(bad_words=[word], **EXACT).text


@effect("allowed_token_ids")
def tokens_that_may_come(door):
    text = door.ask(allowed_token_ids=ids(door, "春") + ids(door, "秋"), temperature=2).text
    assert len(text) == 16 and set(text) <= {"春", "秋"}


@effect("stop", "include_stop_str_in_output")
def a_text_that_ends(door):
    whole = door.ask(**EXACT).text
    for stop in ([whole[4:6]], ["never", whole[5]]):
        ended = door.ask(stop=stop, **EXACT)
        assert ended.text == whole[:whole.index(stop[-1])]
        assert (ended.choice.finish_reason, ended.choice.stop_reason) == ("stop", stop[-1])
        shown = door.ask(stop=stop, include_stop_str_in_output=True, **EXACT).text
        assert shown == ended.text + stop[-1]
        assert joined(door.stream(stop=stop, **EXACT)) == ended.text


@effect("stop_token_ids")
def a_token_that_ends(door):
    told = door.ask(return_token_ids=True, **EXACT)
    stop = told.choice.token_ids[4]
    ended = door.ask(stop_token_ids=[stop], return_token_ids=True, **EXACT).choice
    assert ended.token_ids == told.choice.token_ids[:told.choice.token_ids.index(stop) + 1]
    assert (ended.finish_reason, ended.stop_reason) == ("stop", stop)


@effect("ignore_eos")
def past_the_end(door):
    prompt = "你好" if door.is_chat else "<|begin_of_sentence|>User: 你好\nAssistant: "
    ended = door.ask(prompt, max_tokens=200, **EXACT)
    assert ended.choice.finish_reason == "stop" and ended.count < 200
    assert door.ask(prompt, max_tokens=200, ignore_eos=True, **EXACT).count == 200


@effect("repetition_detection", "repetition_detection.max_pattern_size", "repetition_detection.min_pattern_size",
        "repetition_detection.min_count")
def going_round(door):
    (laugh,) = ids(door, "哈")

    def laughs(**rule):
        choice = door.ask(logit_bias={str(laugh): 100}, max_tokens=20, repetition_detection=rule).choice
        return len(choice.message.content if door.is_chat else choice.text), choice.finish_reason
    assert laughs(max_pattern_size=1, min_count=5) == (5, "stop")
    assert laughs(max_pattern_size=3, min_pattern_size=3, min_count=2) == (6, "stop")
    assert laughs(max_pattern_size=0) == (20, "length")


@effect("logprobs", "top_logprobs", on=("chat",))
@effect("logprobs", on=("completions",))
def what_the_model_thought(door):
    assert door.ask().choice.logprobs is None
    told = door.ask(**door.logprobs(3), **EXACT)
    assert "".join(told.tokens) == told.text and len(told.tokens) == told.count
    for top in (each.top_logprobs for each in told.choice.logprobs.content) if door.is_chat else told.choice.logprobs.top_logprobs:
        assert len(top) == 3


@effect("logprob_token_ids")
def what_it_thought_of_these(door):
    wanted = ids(door, "春") + ids(door, "秋")
    told = door.ask(logprob_token_ids=wanted, max_tokens=3, ignore_eos=True, **door.logprobs()).choice.logprobs
    if door.is_chat:
        assert [[top.token for top in each.top_logprobs] for each in told.content] == [["春", "秋"]] * 3
    else:
        assert all({"春", "秋"} <= set(top) and len(top) <= 3 for top in told.top_logprobs)
    with pytest.raises(openai.BadRequestError):
        door.ask(logprob_token_ids=[10 ** 8], **door.logprobs())


@effect("prompt_logprobs")
def what_it_thought_of_the_prompt(door):
    told = door.ask(prompt_logprobs=1)
    entries = told.answer.prompt_logprobs if door.is_chat else told.choice.prompt_logprobs
    assert len(entries) == told.answer.usage.prompt_tokens and entries[0] is None


@effect("echo", on=("completions",))
def the_prompt_again(door):
    assert door.ask(echo=True).text.startswith(PROMPT) and not door.ask().text.startswith(PROMPT)


@effect("echo", "continue_final_message", on=("chat",))
def going_on_with_a_message(door):
    begun = [{"role": "user", "content": PROMPT}, {"role": "assistant", "content": "春风吹绿"}]
    fields = dict(continue_final_message=True, return_prompt_text=True, **EXACT)
    on = door.ask(begun, **fields)
    assert on.answer.prompt_text.endswith("Assistant: 春风吹绿")
    assert door.ask(begun, return_prompt_text=True).answer.prompt_text.endswith("Assistant: ")
    assert door.ask(begun, echo=True, **fields).text == "春风吹绿" + on.text
    assert joined(door.stream(begun, echo=True, **fields)) == "春风吹绿" + on.text
    # It goes on as it would have by itself.
    whole = door.ask(**EXACT).text
    begun[1]["content"] = whole[:5]
    if len(door.ask(max_tokens=3, **EXACT).text) <= 5:
        assert door.ask(begun, continue_final_message=True, **EXACT).text.startswith(whole[5:10])


@effect("return_token_ids")
def ids_beside_the_text(door):
    told = door.ask(return_token_ids=True, seed=4)
    assert len(told.choice.token_ids) == told.count
    prompt = told.answer.prompt_token_ids if door.is_chat else told.choice.prompt_token_ids
    assert len(prompt) == told.answer.usage.prompt_tokens
    assert prompt == ids(door, f"<|begin_of_sentence|>User: {PROMPT}\nAssistant: " if door.is_chat else PROMPT)
    assert told.text == door.client.post("/../detokenize", body={"tokens": told.choice.token_ids},
                                         cast_to=object)["prompt"].removesuffix("</s>")
    chunks = door.stream(return_token_ids=True, seed=4)
    streamed = [token for chunk in chunks for choice in chunk.choices for token in getattr(choice, "token_ids", None) or []]
    assert streamed == told.choice.token_ids
    assert (chunks[0] if door.is_chat else chunks[0].choices[0]).prompt_token_ids == prompt
    assert door.ask().choice.token_ids is None


@effect("return_tokens_as_token_ids")
def tokens_named_by_their_ids(door):
    told = door.ask(return_tokens_as_token_ids=True, return_token_ids=True, **door.logprobs())
    assert told.tokens == [f"token_id:{token}" for token in told.choice.token_ids]


@effect("return_prompt_text", on=("chat",))
def the_prompt_as_it_was_read(door):
    assert door.ask("你好", return_prompt_text=True).answer.prompt_text == "<|begin_of_sentence|>User: 你好\nAssistant: "
    assert not hasattr(door.ask("你好").answer, "prompt_text")


@effect("show_expert_trace")
def the_experts_at_work(door):
    told = door.ask(show_expert_trace=True, n=2, seed=1)
    trace = told.answer.expert_trace
    assert trace["tokens"] == told.count
    for layer in trace["layers"]:
        counts = {each["expert"]: each["tokens"] for each in layer["experts"]}
        assert sum(counts.values()) == told.count * trace["top_k"]
        assert max(counts.values()) <= told.count and max(counts) < trace["experts"]
        assert layer["pair"][0] < layer["pair"][1] and set(layer["pair"]) <= set(counts)
    assert trace["busiest_pair"]["experts"] in [layer["pair"] for layer in trace["layers"]]
    chunks = door.stream(show_expert_trace=True, n=2, seed=1)
    assert chunks[-1].expert_trace == trace and not any(hasattr(chunk, "expert_trace") for chunk in chunks[:-1])
    assert not hasattr(door.ask().answer, "expert_trace")


@effect("skip_special_tokens")
def control_tokens(door):
    (end,) = ids(door, "</s>")
    fields = dict(logit_bias={str(end): 100}, ignore_eos=True, max_tokens=3)
    assert door.ask(**fields).text == ""
    assert door.ask(skip_special_tokens=False, **fields).text == "</s>" * 3


@effect("request_id")
def a_name_for_the_answer(door):
    assert door.ask(request_id="mine-7").answer.id.endswith("cmpl-mine-7")


@effect("priority")
def a_place_in_the_queue(door):
    # Order needs a full server: test_request_fields.py. Here: any whole number, and nothing else.
    assert door.ask(priority=-5, seed=1).text == door.ask(seed=1).text
    with pytest.raises(openai.BadRequestError):
        door.ask(priority="high")


@effect("cache_salt")
def prefixes_of_ones_own(door):
    def cached(**fields):
        answer = door.ask("这是一段很长的提示：" + "春眠不觉晓，处处闻啼鸟。" * 8, **fields).answer
        return answer.usage.prompt_tokens_details.cached_tokens
    cached()
    assert cached() > 0 and cached(cache_salt=f"a-{door.endpoint}-{time.monotonic()}") == 0


@effect("timeout")
def an_answer_in_time_or_none(door):
    with pytest.raises(openai.APIStatusError) as late:
        door.client.post(f"/{'chat/' if door.is_chat else ''}completions", cast_to=object,
                         body={"prompt": PROMPT, "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 1900, "n": 32,
                               "ignore_eos": True, "timeout": 0.05})
    assert late.value.status_code == 504


@effect("add_special_tokens")
def what_the_tokenizer_puts_first(door):
    # Nothing, with ERNIE's tokenizers: prompts stay as they are (Llama's: completion_prompt_test.cc).
    fields = dict(return_token_ids=True)
    told = [door.ask(add_special_tokens=value, **fields) for value in (True, False)]
    prompts = [each.answer.prompt_token_ids if door.is_chat else each.choice.prompt_token_ids for each in told]
    assert prompts[0] == prompts[1]


@effect("add_generation_prompt", on=("chat",))
def the_beginning_of_an_answer(door):
    assert door.ask("你好", add_generation_prompt=False, return_prompt_text=True).answer.prompt_text.endswith("你好\n")


@effect("chat_template", "chat_template_kwargs", "documents", on=("chat",))
def a_template_of_the_requests_own(door):
    asked = dict(chat_template="{{ colour }}: {{ documents[0].text }}, {{ messages[0].content }}",
                 chat_template_kwargs={"colour": "绿"}, documents=[{"title": "t", "text": "春天"}])
    assert door.ask("你好", return_prompt_text=True, **asked).answer.prompt_text == "绿: 春天, 你好"


@effect("truncate_prompt_tokens", "truncation_side")
def prompts_that_are_too_long(door):
    long = "好" * 5000
    with pytest.raises(openai.BadRequestError, match="maximum context length"):
        door.ask(long)
    assert door.ask(long, truncate_prompt_tokens=-1).answer.usage.prompt_tokens == 2048 - 16
    whole, cut = (door.ask(return_token_ids=True, **fields) for fields in ({}, {"truncate_prompt_tokens": 5}))
    side = door.ask(return_token_ids=True, truncate_prompt_tokens=5, truncation_side="right")
    whole, cut, side = ((each.answer if door.is_chat else each.choice).prompt_token_ids for each in (whole, cut, side))
    assert cut == whole[-5:] and side == whole[:5]


@pytest.mark.parametrize("endpoint, effect_of", [(endpoint, function) for endpoint, _, function in EFFECTS],
                         ids=[f"{endpoint}-{function.__name__}" for endpoint, _, function in EFFECTS])
def test_effect(client, endpoint, effect_of):
    effect_of(Door(client, endpoint))


def fields_of(server, endpoint):
    """The fields of an endpoint and the members of theirs, by name, as /openapi.json has them."""
    name = {"chat": "ChatCompletionRequest", "completions": "CompletionRequest"}[endpoint]
    fields = server.get("/openapi.json").json["components"]["schemas"][name]["properties"]
    members = {f"{field}.{member}": inner for field, schema in fields.items()
               for member, inner in schema.get("properties", {}).items()}
    return fields | members


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_every_field_has_an_effect(server, endpoint):
    honoured = {name for name, schema in fields_of(server, endpoint).items()
                if "x-unsupported" not in schema and not schema["description"].startswith("Accepted, without effect")}
    tested = {field for door, fields, _ in EFFECTS if door == endpoint for field in fields}
    assert {name for name in honoured if name.split(".")[0] not in ELSEWHERE} == tested - ELSEWHERE


EXAMPLES = {"string": "x", "object": {"a": 1}, "array": ["x"], "boolean": True, "integer": 7, "number": 7.5}


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_what_has_no_effect_is_accepted_or_a_400_that_says_why(server, endpoint):
    path = "/v1/chat/completions" if endpoint == "chat" else "/v1/completions"
    plain = {"model": "erne-mini", "max_tokens": 1}
    plain |= {"messages": [{"role": "user", "content": "hi"}]} if endpoint == "chat" else {"prompt": "hi"}
    for name, schema in fields_of(server, endpoint).items():
        unsupported, accepted = "x-unsupported" in schema, schema["description"].startswith("Accepted, without effect")
        if not unsupported and not accepted or "." in name:
            continue
        kind = schema.get("type", ["string"])[0]
        example = EXAMPLES[kind] if EXAMPLES[kind] != schema.get("default") else False
        asked = server.post(path, plain | {name: example})
        assert asked.status == (400 if unsupported else 200), (name, asked.text)
        if unsupported:
            error = asked.json["error"]
            assert error["param"] == name and "is not supported" in error["message"] and error["type"] == "BadRequestError"
            assert server.post(path, plain | {name: None}).status == 200
            if "default" in schema:
                assert server.post(path, plain | {name: schema["default"]}).status == 200
