"""Streams that outlive their connection: stream_options.resumable_seconds and /v1/streams/ID."""
import http.client
import json
import socket
import time

import pytest

from erne_server import Server

MESSAGES = [{"role": "user", "content": "写一首关于秋天的诗"}]
FIELDS = {"model": "erne-mini", "messages": MESSAGES, "seed": 11, "ignore_eos": True, "max_tokens": 60}


SLOW = ("--executor", "reference")  # about 25 tokens a second, so that 1,900 are far more than any test waits for


class Stream:
    """A client that reads event by event, and may drop its connection in the middle."""

    def __init__(self, server, method, path, body=None, headers=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.connection.request(method, path, None if body is None else json.dumps(body), headers or {})
        self.answer = self.connection.getresponse()
        self.status, self.headers = self.answer.status, self.answer.headers
        self.ids, self.data = [], []

    def read(self, events=10**9):
        """The next events, to the end of the stream at most."""
        while events > 0:
            lines = []
            while (line := self.answer.readline()) not in (b"\n", b""):
                lines.append(line.decode("utf-8").rstrip("\n"))
            if not lines:
                return self
            if lines[0].startswith(":"):
                continue
            if lines[0].startswith("id: "):
                self.ids.append(int(lines.pop(0).removeprefix("id: ")))
            (data,) = lines
            self.data.append(data.removeprefix("data: "))
            events -= 1
        return self

    def drop(self):
        """As when the process is killed: what has not been read makes it a reset."""
        self.connection.sock.close()
        self.answer.close()


def ask(server, path="/v1/chat/completions", headers=None, seconds=30, **fields):
    options = {"include_usage": True, **({"resumable_seconds": seconds} if seconds else {})}
    return Stream(server, "POST", path, {**FIELDS, "stream": True, "stream_options": options, **fields}, headers)


def resume(server, stream_id, last=None, headers=None, query=""):
    headers = {**(headers or {}), **({"Last-Event-ID": str(last)} if last is not None else {})}
    return Stream(server, "GET", f"/v1/streams/{stream_id}{query}", None, headers)



def said(data):
    """What the events say: without id and time, and choice by choice, for choices come as they come."""
    events = [json.loads(event) for event in data if event != "[DONE]"]
    events = [{key: value for key, value in event.items() if key not in ("id", "created")} for event in events]
    return sorted(events, key=lambda event: event["choices"][0]["index"] if event["choices"] else 99)


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


def running(server):
    return server.get("/health").json["running"]


def test_nothing_changes_for_those_who_do_not_ask(mini):
    stream = ask(mini, seconds=None, max_tokens=8).read()
    assert stream.status == 200 and stream.data[-1] == "[DONE]"
    assert stream.ids == [] and stream.headers["X-Stream-Id"] is None
    assert resume(mini, json.loads(stream.data[0])["id"]).status == 404


def test_each_event_has_a_number(mini):
    plain = ask(mini, seconds=None).read()
    stream = ask(mini).read()
    assert stream.ids == list(range(1, len(stream.data) + 1))
    assert stream.headers["X-Stream-Id"] == json.loads(stream.data[0])["id"]
    assert said(stream.data) == said(plain.data) and stream.data[-1] == "[DONE]"


@pytest.mark.parametrize("path, fields", [
    ("/v1/chat/completions", {}), ("/v1/chat/completions", {"n": 2, "logprobs": True}),
    ("/v1/completions", {"prompt": "秋天", "messages": None, "echo": True})], ids=["chat", "choices", "completions"])
@pytest.mark.parametrize("how", ["header", "query"])
def test_a_client_that_lost_its_connection_has_the_same_answer(mini, path, fields, how):
    whole = ask(mini, path, seconds=None, **fields).read()
    first = ask(mini, path, **fields).read(7)
    first.drop()
    name = first.headers["X-Stream-Id"]
    second = (resume(mini, name, 7) if how == "header" else resume(mini, name, query="?last_event_id=7")).read(20)
    assert second.status == 200 and second.headers["X-Stream-Id"] == name
    assert second.headers["Content-Type"].startswith("text/event-stream")
    second.drop()
    # It may be that the last events were sent and not read.
    third = resume(mini, name, 25).read()
    assert first.ids + second.ids[:18] + third.ids == list(range(1, len(whole.data) + 1))
    joined = first.data + second.data[:18] + third.data
    assert said(joined) == said(whole.data) and joined[-1] == "[DONE]"


def test_an_answer_that_has_ended_can_be_fetched_again(mini):
    stream = ask(mini, max_tokens=6).read()
    name = stream.headers["X-Stream-Id"]
    for last in (None, 3, stream.ids[-1]):
        again = resume(mini, name, last).read()
        assert again.data == stream.data[last or 0:] and again.ids == stream.ids[last or 0:]


def test_generation_goes_on_and_is_cancelled_when_nobody_comes_back():
    with Server(*SLOW) as server:
        stream = ask(server, seconds=2, max_tokens=1900).read(3)
        name = stream.headers["X-Stream-Id"]
        plain = ask(server, seconds=None, max_tokens=1900).read(3)
        assert running(server) == 2
        # A plain stream is cancelled within a step; the other one is not while its time lasts.
        stream.drop()
        plain.drop()
        wait_until(lambda: running(server) == 1)
        wait_until(lambda: running(server) == 0)
        assert server.get("/health").json["kv_blocks_used"] == 0
        late = resume(server, name, 3)
        assert late.status == 404 and json.loads(late.answer.read())["error"]["code"] == 404


def test_the_second_listener_takes_over():
    with Server(*SLOW) as server:
        first = ask(server, max_tokens=1900).read(5)
        second = resume(server, first.headers["X-Stream-Id"], 5)
        first.read()  # ends
        assert first.data[-1] != "[DONE]"
        assert second.read(5).ids == [6, 7, 8, 9, 10]
        second.drop()


def test_only_the_same_key_finds_a_stream():
    with Server("--api-key", "alice", "bob") as server:
        alice, bob = ({"Authorization": f"Bearer {key}"} for key in ("alice", "bob"))
        stream = ask(server, headers=alice, max_tokens=8).read()
        name = stream.headers["X-Stream-Id"]
        assert resume(server, name).status == 401
        assert resume(server, name, headers=bob).status == 404
        assert resume(server, name, headers=alice).read().data == stream.data
        # The same name, chosen by both: two streams.
        named = {"X-Request-Id": "mine"}
        texts = [ask(server, headers={**key, **named}, max_tokens=8, seed=seed).read().data
                 for seed, key in ((1, alice), (2, bob))]
        assert texts[0] != texts[1]
        assert [resume(server, "chatcmpl-mine", headers=key).read().data for key in (alice, bob)] == texts
        again = ask(server, headers={**alice, **named}, max_tokens=8)
        assert again.status == 400 and json.loads(again.answer.read())["error"]["param"] == "request_id"


@pytest.mark.parametrize("seconds", [0, 61, -1, 1.5, "5", True, [1]])
def test_bad_times_name_the_field(mini, seconds):
    body = {**FIELDS, "stream": True, "stream_options": {"resumable_seconds": seconds}}
    for path in ("/v1/chat/completions", "/v1/completions"):
        answer = mini.post(path, {**body, "prompt": "x"})
        assert answer.status == 400 and answer.json["error"]["param"] == "stream_options.resumable_seconds", answer.text


def test_it_is_for_streams_only(mini):
    answer = mini.post("/v1/chat/completions", {**FIELDS, "stream_options": {"resumable_seconds": 5}})
    assert answer.status == 400 and answer.json["error"]["param"] == "stream_options"


def test_bad_event_numbers(mini):
    name = ask(mini, max_tokens=4).read().headers["X-Stream-Id"]
    for last in ("x", "-1", "99", "1.5", ""):
        answer = resume(mini, name, last)
        assert answer.status == 400 and json.loads(answer.answer.read())["error"]["param"] == "last_event_id", last
    assert mini.post(f"/v1/streams/{name}", {}).status == 405
    assert mini.get("/v1/streams/").status == 404


@pytest.mark.parametrize("listening", [True, False])
def test_shutdown_ends_streams(listening):
    with Server("--shutdown-timeout", 300, *SLOW) as server:
        stream = ask(server, seconds=60, max_tokens=40 if listening else 1900).read(3)
        if not listening:
            stream.drop()
        server.process.terminate()
        if listening:
            assert stream.read().data[-1] == "[DONE]" and len(stream.data) > 20
        # Nobody can come back to a server that has closed its port: it waits for no one.
        assert server.process.wait(50) == 0


def test_many_clients_lose_their_connections(mini):
    streams = [ask(mini, max_tokens=40, seed=seed).read(2) for seed in range(12)]
    for stream in streams:
        stream.drop()
    for seed, stream in enumerate(streams):
        again = resume(mini, stream.headers["X-Stream-Id"]).read()
        assert said(again.data) == said(ask(mini, seconds=None, max_tokens=40, seed=seed).read().data)


def test_a_client_that_never_reads_its_head(mini):
    # The connection is gone before the answer has begun.
    body = json.dumps({**FIELDS, "stream": True, "stream_options": {"resumable_seconds": 30}}).encode()
    with socket.create_connection(("127.0.0.1", mini.port)) as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: early-%d\r\nContent-Length: %d\r\n\r\n%s"
                       % (mini.port, len(body), body))
    name = f"chatcmpl-early-{mini.port}"
    wait_until(lambda: mini.get("/health").json["running"] > 0 or resume(mini, name).status == 200)
    assert resume(mini, name).read().data[-1] == "[DONE]"
