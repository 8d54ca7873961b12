"""Tutorial contract, row 24: which experts wrote an answer."""
import json
import re
import shutil

import pytest

from browser import chromium
from erne_server import MINI, Server, content_of
from tutorial_folder import read_safetensors, write_safetensors

QUESTION = "用一句话解释MoE架构，要求让初中生听懂"
EXACT = {"temperature": 0, "repetition_penalty": 1, "max_tokens": 24, "ignore_eos": True}


def test_row_24_the_experts_of_an_answer(mini):
    plain = mini.chat(QUESTION, **EXACT).json
    traced = mini.chat(QUESTION, show_expert_trace=True, **EXACT).json
    assert traced["choices"] == plain["choices"], "never in the text, and the answer is the same"
    assert "expert_trace" not in plain
    trace = traced["expert_trace"]
    assert (trace["tokens"], trace["experts"], trace["top_k"]) == (24, 8, 2)
    assert [layer["layer"] for layer in trace["layers"]] == list(range(1, 8))
    for layer in trace["layers"]:
        counts = [each["tokens"] for each in layer["experts"]]
        assert counts == sorted(counts, reverse=True) and sum(counts) == 24 * 2
    busiest = trace["busiest_pair"]
    (layer,) = (layer for layer in trace["layers"] if layer["layer"] == busiest["layer"])
    assert layer["pair"] == busiest["experts"] and 24 / 28 <= busiest["tokens"] <= 24  # 28 pairs there are
    events = mini.stream(QUESTION, show_expert_trace=True, **EXACT)
    assert events[-1]["expert_trace"] == trace and content_of(events) == plain["choices"][0]["message"]["content"]


def test_row_24_a_stop_text_ends_the_trace_with_the_answer(mini):
    whole = mini.chat(QUESTION, **EXACT).json["choices"][0]["message"]["content"]
    stopped = mini.chat(QUESTION, show_expert_trace=True, stop=whole[6], **EXACT).json
    assert stopped["expert_trace"]["tokens"] == stopped["usage"]["completion_tokens"] < 24


def test_row_24_both_executors_say_the_same(mini_exact):
    with Server("--executor", "reference") as reference:
        traces = [server.chat(QUESTION, show_expert_trace=True, **EXACT).json["expert_trace"] for server in (mini_exact, reference)]
    assert traces[0] == traces[1]


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    """The first layer of erne-mini alone, which is dense."""
    folder = tmp_path_factory.mktemp("models") / "dense"
    folder.mkdir()
    for path in MINI.iterdir():
        if path.suffix in (".json", ".model"):
            shutil.copyfile(path, folder / path.name)
    config = json.loads((MINI / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 1}))
    header, begin, raw = read_safetensors(MINI / "model.safetensors")
    names = [name for name in header if name != "__metadata__" and (".layers." not in name or ".layers.0." in name)]
    write_safetensors(folder / "model.safetensors", names, header, begin, raw)
    with Server(folder) as server:
        yield server


def test_row_24_a_dense_model_says_so(dense):
    asked = {"model": "dense", "messages": [{"role": "user", "content": "你好"}], "max_tokens": 4, "show_expert_trace": True}
    assert dense.post("/v1/chat/completions", asked).json["expert_trace"] == {"dense": True}


@pytest.mark.slow
def test_row_24_the_switch_on_the_page(mini, dense, tmp_path):
    with chromium(tmp_path / "profile") as browser:
        def ask(server, switched):
            browser.open(server.url)
            browser.wait_for("document.getElementById('status').dataset.state === 'ready' && !document.querySelector('.card').disabled")
            if switched:
                browser.run("document.getElementById('experts').click()")
            browser.run("document.querySelector('.card').click()")
            browser.wait_for("document.querySelectorAll('.assistant:not(.writing)').length === 1")
            return browser.run("[...document.querySelectorAll('.note')].map((note) => note.textContent).join()")
        assert re.search(r"\[E[0-7]→E[0-7]\]", ask(mini, switched=True))
        assert "[E" not in ask(mini, switched=False)
        assert re.search("dense|稠密", ask(dense, switched=True))
