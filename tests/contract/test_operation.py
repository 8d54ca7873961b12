"""Tutorial contract, "Operation": rows 32 and 33; and of row 13 what a burst gets: a place in the queue, or a 429 with Retry-After."""
import re
import signal
import threading
import time

from erne_server import Server

STATS = re.compile(
    r" INFO \[stats:\d+\] STATS num_requests_running=(\d+), num_requests_waiting=(\d+), gpu_cache_usage=([\d.]+)%, "
    r"avg_prompt_throughput=([\d.]+) tokens/s, avg_generation_throughput=([\d.]+) tokens/s, prefix_cache_hit_rate=([\d.]+)%$", re.M)
PATIENCE_S = 60


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def in_background(*calls):
    """Runs the calls, each in a thread of its own; returns the threads and, once they are joined, the results in order."""
    results = [None] * len(calls)

    def run(index):
        results[index] = calls[index]()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    return threads, results


def test_row_32_the_stats_line_and_silence_while_idle():
    with Server("--stats-interval", 1) as server:
        time.sleep(2.1)
        assert "STATS" not in server.read_log()  # nobody has asked yet
        answer = server.chat("写一首关于春天的七言绝句", max_tokens=30, ignore_eos=True)
        assert answer.status == 200
        wait_for(lambda: STATS.search(server.read_log()))
        time.sleep(2.1)
        lines = STATS.findall(server.read_log())
        # In one of at most two lines (the request may lie across their border) there are its tokens.
        assert 1 <= len(lines) <= 2
        assert any(float(line[4]) > 0 for line in lines)
        assert server.read_log().count("STATS") == len(lines)


def test_row_32_stats_can_be_turned_off():
    with Server("--stats-interval", 1, "--disable-log-stats") as server:
        server.chat("你好", max_tokens=30, ignore_eos=True)
        time.sleep(2.1)
        assert "STATS" not in server.read_log()


def test_row_33_a_full_cache_is_an_alarm_and_a_metric():
    # There is as much as one request of this length needs, and the prompt takes most of it.
    with Server("--max-model-len", 512, "--max-num-seqs", 1) as server:
        pressure = re.compile(r"^erne:kv_cache_pressure\{[^}]*\} (\d)$", re.M)
        assert pressure.search(server.get("/metrics").text)[1] == "0"
        seen = set()
        done = threading.Event()

        def ask():
            while not done.is_set():
                server.post("/v1/completions", {"prompt": [5] * 480, "max_tokens": 32, "ignore_eos": True})

        worker = threading.Thread(target=ask)
        worker.start()
        try:
            wait_for(lambda: seen.add(pressure.search(server.get("/metrics").text)[1]) or "1" in seen)
            wait_for(lambda: "gpu_cache_usage is" in server.read_log())
        finally:
            done.set()
            worker.join()
        alarms = [line for line in server.read_log().splitlines() if "gpu_cache_usage is" in line]
        assert len(alarms) == 1  # not again within the minute
        assert " WARNING [stats:" in alarms[0] and "\033" not in alarms[0]  # a file has no colours
        assert float(re.search(r"gpu_cache_usage is ([\d.]+)%", alarms[0])[1]) > 92
        assert "Clear sessions" in alarms[0] and "lower concurrency" in alarms[0]


def test_row_13_a_burst_queues_and_the_rest_is_told_when_to_come_back():
    with Server("--max-num-seqs", 2, "--max-num-queued-reqs", 3) as server:
        ask = lambda: server.chat("你好", max_tokens=60, ignore_eos=True, stream=False)
        threads, answers = in_background(*[ask] * 20)
        for thread in threads:
            thread.join()
        refused = [answer for answer in answers if answer.status == 429]
        assert refused and len(refused) <= 15
        assert sum(answer.status == 200 for answer in answers) == 20 - len(refused)
        for answer in refused:
            assert 1 <= int(answer.headers["Retry-After"]) <= 60
            error = answer.json["error"]
            assert (error["type"], error["code"], error["param"]) == ("RateLimitError", 429, None)
            assert "queue is full" in error["message"]
        assert server.chat("你好", max_tokens=2).status == 200  # there is room again


def running(server):
    health = server.get("/health")
    return health.json.get("running", 0) if health.status == 200 else 0


def test_sigterm_lets_accepted_requests_finish_and_says_503_to_new_ones():
    with Server("--max-num-seqs", 8) as server:
        ask = lambda: server.chat("写一首诗", max_tokens=150, ignore_eos=True)
        threads, answers = in_background(*[ask] * 12)  # some run, some wait
        wait_for(lambda: server.get("/health").json["running"] + server.get("/health").json["waiting"] == 12)
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: server.get("/health").status == 503)
        assert server.get("/health/ready").json == {"status": "draining"}
        assert server.get("/health/live").status == 200
        late = server.chat("你好", max_tokens=2)
        assert late.status == 503 and int(late.headers["Retry-After"]) >= 1
        assert late.headers["Connection"] == "close"
        assert late.json["error"]["type"] == "ServiceUnavailableError"
        for thread in threads:
            thread.join()
        assert [answer.status for answer in answers] == [200] * 12
        assert all(answer.json["usage"]["completion_tokens"] == 150 for answer in answers)
        assert server.process.wait(PATIENCE_S) == 0
        assert "SIGTERM: shutting down" in server.read_log() and "Stopped." in server.read_log()


def test_after_the_shutdown_timeout_the_rest_is_ended():
    with Server("--shutdown-timeout", 1) as server:
        threads, answers = in_background(
            lambda: server.chat("写一首诗", max_tokens=1900, ignore_eos=True, repetition_detection={"max_pattern_size": 0}))
        wait_for(lambda: running(server) == 1)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(PATIENCE_S) == 0
        threads[0].join()
        assert answers[0].status in (200, 503)  # 200: this machine is fast
        assert "SIGINT: shutting down" in server.read_log()


def test_a_second_signal_ends_at_once():
    with Server("--shutdown-timeout", 600) as server:
        def ask():
            try:
                return server.chat("写一首诗", max_tokens=1900, ignore_eos=True, repetition_detection={"max_pattern_size": 0})
            except OSError:
                return None

        threads, _ = in_background(*[ask] * 16)
        wait_for(lambda: running(server) > 0)
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "shutting down" in server.read_log())
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_S) in (-signal.SIGTERM, 0)  # 0: it had ended by itself
        for thread in threads:
            thread.join()
        server.process.returncode = 0
