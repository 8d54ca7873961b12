"""Tutorial contract, row 9 at any load: thousands of clients at once, thousands that only hold a connection, and a health check that
never waits for them. What is asserted here is that nobody is lost; how fast it is belongs to the benchmarks."""
import asyncio
import collections
import json
import os
import resource
import socket
import threading

import pytest

from erne_server import Server

HEALTH = b"GET /health HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
MODELS = b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n"
PATIENCE_S = 120


def chat(**fields):
    body = json.dumps({"messages": [{"role": "user", "content": "你好"}], "ignore_eos": True, **fields}).encode()
    return (b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)) + body


@pytest.fixture
def descriptors():
    """As many as the system allows: the clients' sockets are ours."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def status_of(server, name):
    with open(f"/proc/{server.process.pid}/status", encoding="utf-8") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


async def ask(port, request):
    """The status and the whole answer of a request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return int(answer.split(b" ", 2)[1]), answer


class Probe:
    """Asks for /health over and over, in a thread of its own, while the `with` lasts; counts the statuses."""

    def __init__(self, port):
        self.statuses = collections.Counter()
        self._port, self._done = port, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exc):
        self._done.set()
        self._thread.join()

    def _run(self):
        while not self._done.wait(0.005):
            with socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE_S) as client:
                client.sendall(HEALTH)
                answer = client.recv(4096)
            self.statuses[answer.split(b" ", 2)[1].decode() if answer else "none"] += 1


def test_row_09_a_flood_is_answered_and_so_is_the_health_check(descriptors):
    count = min(5000, descriptors - 500)

    async def flood(port):
        return await asyncio.gather(*[ask(port, chat(max_tokens=2)) for _ in range(count)])

    with Server("--max-num-seqs", 8, "--max-num-queued-reqs", 24) as server:
        with Probe(server.port) as probe:
            answers = asyncio.run(asyncio.wait_for(flood(server.port), PATIENCE_S))
        assert set(probe.statuses) == {"200"} and probe.statuses["200"] > 10
        statuses = collections.Counter(status for status, _ in answers)
        assert set(statuses) <= {200, 429} and statuses.total() == count and statuses[200] >= 32
        assert all(b"Retry-After: " in answer for status, answer in answers if status == 429)
        # The burst left nothing behind.
        health = server.get("/health").json
        assert (health["status"], health["running"], health["waiting"], health["kv_blocks_used"]) == ("ok", 0, 0, 0)


def test_row_09_idle_connections_cost_next_to_nothing(descriptors):
    idle, streams = min(1000, descriptors - 500), 64

    async def crowd(server):
        connections = []
        before = status_of(server, "VmRSS")
        for _ in range(idle):  # each has asked once
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(MODELS)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            connections.append((reader, writer))
        taken_kib = status_of(server, "VmRSS") - before
        with Probe(server.port) as probe:
            for status, answer in await asyncio.gather(
                    *[ask(server.port, chat(max_tokens=24, stream=True)) for _ in range(streams)]):
                assert status == 200 and b"data: [DONE]" in answer
            thread_count = status_of(server, "Threads")
        for reader, writer in connections:  # none was dropped
            assert not reader.at_eof()
            writer.close()
        assert set(probe.statuses) == {"200"}
        return taken_kib, thread_count

    with Server("--max-num-seqs", streams) as server:
        server.chat("你好", max_tokens=2)
        taken_kib, thread_count = asyncio.run(asyncio.wait_for(crowd(server), PATIENCE_S))
        assert thread_count <= len(os.sched_getaffinity(0)) + 8
        assert taken_kib <= 32 * idle  # no buffer; about 1 KiB, and more under a sanitizer
