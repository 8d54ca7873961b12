"""GET /metrics of the real program, read with Prometheus' own parser."""
import json
import pathlib
import re
import time
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from erne_server import Server

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


class Scrape:
    def __init__(self, server):
        answer = server.get("/metrics")
        assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        self.text = answer.text
        self.families = list(text_string_to_metric_families(self.text))

    def value(self, name, **labels):
        """The sum of the samples called `name` with (at least) these labels."""
        return sum(sample.value for family in self.families for sample in family.samples
                   if sample.name == name and labels.items() <= sample.labels.items())


def moved(server, act, *names, **labels):
    before = Scrape(server)
    act()
    after = Scrape(server)
    return [after.value(name, **labels) - before.value(name, **labels) for name in names]


def test_the_families_are_the_documented_ones_each_once(mini):
    mini.chat("你好", max_tokens=2)
    names = re.findall(r"^# TYPE (\S+)", Scrape(mini).text, re.M)
    assert len(names) == len(set(names))
    for page in ("metrics.md", "metrics.zh.md"):
        documented = re.findall(r"^\| `([a-z_:0-9]+)` \|", (DOCS / page).read_text(encoding="utf-8"), re.M)
        assert sorted(names) == sorted(documented), page


def test_series_carry_the_models_name_and_the_engine(mini):
    for family in Scrape(mini).families:
        for sample in family.samples:
            if family.name.startswith(("vllm:", "erne:")):
                assert sample.labels["model_name"] == "erne-mini" and sample.labels["engine"] == "0", sample


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_moves_what_it_should(mini, stream):
    messages = [{"role": "user", "content": f"写一首关于{'秋天' if stream else '春天'}的诗"}]
    prompt = mini.post("/tokenize", {"messages": messages}).json["count"]
    ask = lambda: mini.chat(messages, max_tokens=20, ignore_eos=True, stream=stream)
    assert moved(mini, ask, "vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_prompt_tokens_sum",
                 "vllm:request_generation_tokens_sum", "vllm:request_params_max_tokens_sum", "vllm:request_params_n_count",
                 "vllm:time_to_first_token_seconds_count", "vllm:inter_token_latency_seconds_count",
                 "vllm:e2e_request_latency_seconds_count", "vllm:request_queue_time_seconds_count",
                 "vllm:request_success_total") == [prompt, 20, prompt, 20, 20, 1, 1, 19, 1, 1, 1]
    # The same prompt once more: most of it is in the cache, and counts all the same.
    assert moved(mini, ask, "vllm:prompt_tokens_total", "vllm:request_prompt_tokens_sum") == [prompt, prompt]


def test_reasons(mini):
    def ends():
        scrape = Scrape(mini)
        return {reason: scrape.value("vllm:request_success_total", finished_reason=reason)
                for reason in ("stop", "length", "repetition", "abort", "error")}

    def reasons(act):
        """What has been counted more once the engine knows that `act` is over: after an end that it did not see itself, with
        its next step."""
        before = ends()
        act()
        deadline = time.monotonic() + 60
        while ends() == before and time.monotonic() < deadline:
            time.sleep(0.01)
        return {reason: count - before[reason] for reason, count in ends().items() if count != before[reason]}

    assert reasons(lambda: mini.chat("你好", max_tokens=3, ignore_eos=True, n=2)) == {"length": 2}
    some = mini.post("/v1/completions", {"prompt": "春眠", "max_tokens": 30, "temperature": 0, "ignore_eos": True})
    stop = some.json["choices"][0]["text"][5:7]
    assert reasons(lambda: mini.post("/v1/completions", {
        "prompt": "春眠", "max_tokens": 30, "temperature": 0, "ignore_eos": True, "stop": [stop]})) == {"stop": 1}

    def leave():
        body = json.dumps({"prompt": "春眠", "max_tokens": 1000, "ignore_eos": True, "stream": True}).encode()
        request = urllib.request.Request(mini.url + "/v1/completions", data=body)
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read(1)

    assert reasons(leave) == {"abort": 1}


def test_http(mini):
    count = "http_requests_total"
    assert moved(mini, lambda: mini.get("/v1/models/erne-mini"), count, handler="/v1/models/{id}", method="GET", status="2xx") == [1]
    assert moved(mini, lambda: mini.get("/v1/models/other"), count, handler="/v1/models/{id}", status="4xx") == [1]
    assert moved(mini, lambda: [mini.get(f"/nowhere/{i}") for i in range(5)], count, handler="none", status="4xx") == [5]
    assert moved(mini, lambda: mini.get("/health"), "http_request_duration_seconds_count", handler="/health") == [1]
    handlers = {sample.labels["handler"] for family in Scrape(mini).families for sample in family.samples
                if "handler" in sample.labels}
    assert not any("nowhere" in handler for handler in handlers)


def test_requests_are_logged_when_asked():
    with Server("--enable-log-requests") as server:
        answer = server.chat("你好", max_tokens=5, ignore_eos=True)
        identity = answer.json["id"]
    lines = [line for line in server.log.splitlines() if f"id={identity} " in line]
    assert len(lines) == 1 and " INFO [request:" in lines[0]
    assert re.search(r"finish=length prompt_tokens=\d+ cached_tokens=0 generated_tokens=5 queue_ms=[\d.]+ "
                     r"first_token_ms=[\d.]+ mean_interval_ms=[\d.]+ total_ms=[\d.]+$", lines[0])
    assert "access:" not in server.log  # at debug alone


def test_the_access_log_leaves_out_what_is_asked_for_all_the_time():
    with Server("--log-level", "debug") as server:
        for path in ("/health", "/health/live", "/metrics", "/", "/page.js", "/v1/models"):
            server.get(path)
        server.chat("你好", max_tokens=2)
    accesses = [line for line in server.log.splitlines() if " DEBUG [access:" in line]
    assert [re.search(r"127\.0\.0\.1:\d+ (\S+ \S+) id=\S+ status=200 ms=[\d.]+$", line)[1] for line in accesses] == [
        "GET /v1/models", "POST /v1/chat/completions"]
    assert sum(" DEBUG [request:" in line for line in server.log.splitlines()) == 1
