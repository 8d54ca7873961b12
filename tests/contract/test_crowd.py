"""Tutorial contract, "Speed and memory", as far as it is about being right: rows 13 and 14. Speed belongs to benchmarks."""
import concurrent.futures

import pytest

from erne_server import BINARY, Server, content_of


def resident_mib(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS:"))


@pytest.mark.skipif(BINARY.parent.name in ("asan", "tsan"), reason="a sanitizer's own memory grows")
def test_row_13_memory_is_flat_in_a_burst():
    with Server() as server, concurrent.futures.ThreadPoolExecutor(100) as pool:
        def burst():
            answers = list(pool.map(lambda i: server.chat(f"第{i}个问题：天为什么是蓝的？", max_tokens=8), range(100)))
            assert {answer.status for answer in answers} == {200}, "a burst queues"

        burst()  # threads of the server have their first requests behind them then
        before = resident_mib(server)
        burst()
        # All that is big is taken before ready. 100 connections and requests may leave 40 KiB each.
        assert resident_mib(server) - before < 4
        assert server.get("/health").json["kv_blocks_used"] == 0


@pytest.mark.parametrize("stream", [False, True])
def test_row_14_five_slogans(mini, stream):
    ask = dict(n=5, max_tokens=24, temperature=1.0, seed=1)
    if stream:
        events = mini.stream("为一家咖啡馆写一句广告语", **ask)
        slogans = [content_of([{"choices": [choice for choice in event["choices"] if choice["index"] == i]} for event in events])
                   for i in range(5)]
    else:
        slogans = [choice["message"]["content"]
                   for choice in mini.chat("为一家咖啡馆写一句广告语", **ask).json["choices"]]
    assert len(slogans) == 5 and all(slogans) and len(set(slogans)) > 1
