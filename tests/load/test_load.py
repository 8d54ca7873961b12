"""The program under load, small: every answer right, nothing left behind. How fast it is belongs to README.md."""
import json
import signal
import subprocess
import time

import pytest

from erne_server import BINARY, Server

LOAD = BINARY.parent / "erne_load"


def load(server, mode, **flags):
    """Runs erne_load, which checks every answer; returns its runs. At the end no request and no block may be in use."""
    line = [str(LOAD), mode, "--url", server.url, "--pid", str(server.process.pid), "--json"]
    for name, value in flags.items():
        line += [f"--{name.replace('_', '-')}={str(value).lower() if isinstance(value, bool) else value}"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=3000)
    assert done.returncode in (0, 1) and done.stdout, done
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["failures"] == 0, [run["faults"] for run in report["runs"]]
    for run in report["runs"]:
        assert run["health_not_ok"] == 0 and run["health_ms"]["count"] > 0
        assert (run["end"]["running"], run["end"]["waiting"], run["end"]["kv_blocks_used"]) == (0, 0, 0)
        # One may begin with the first resumable stream.
        assert 0 <= run["after"]["threads"] - run["before"]["threads"] <= ("resumable_seconds" in flags.get("extra", ""))
    return report["runs"]


def group(run, name="requests"):
    return next(group for group in run["groups"] if group["name"] == name)


@pytest.fixture(scope="module")
def server():
    with Server() as started:
        yield started


def test_the_load_client_finds_what_is_wrong():
    # Whoever listens there is no server: an error, and no table of zeros.
    done = subprocess.run([LOAD, "closed", "--url", "http://127.0.0.1:1"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "127.0.0.1:1" in done.stderr and not done.stdout
    for line in (["open"], [], ["closed", "--concurrency", "0"], ["closed", "--prompt-tokens", "9:3"], ["closed", "--x", "1"]):
        done = subprocess.run([LOAD, *line], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and done.stderr.startswith("erne_load: "), done


def test_the_load_client_counts_bad_answers(server):
    line = [LOAD, "closed", "--url", server.url, "--json", "--requests", "2", "--concurrency", "1", "--max-tokens", "4"]
    done = subprocess.run([*line, "--extra", '{"max_tokens": 3}'], capture_output=True, text=True, timeout=60)
    report = json.loads(done.stdout)
    assert done.returncode == 1 and report["failures"] == 2
    assert report["runs"][0]["faults"] == {"usage counts 3 tokens, 4 were asked for": 2}
    assert group(report["runs"][0])["failed"] == 2


@pytest.mark.parametrize("stream", [True, False])
def test_closed_loops(server, stream):
    runs = load(server, "closed", concurrency="1,6", requests=12, prompt_tokens="10:200", max_tokens="1:24", stream=stream,
                logprobs=True, temperature=0.8)
    assert [group(run)["answered"] for run in runs] == [12, 12]
    # A chat answer that is cut short is a fault, so is a token that usage does not count: what is left is the sum.
    assert all(group(run)["tokens"] >= 12 for run in runs)


def test_a_flood_is_answered_or_refused():
    with Server("--max-num-queued-reqs", 20, "--max-num-seqs", 4) as server:
        (run,) = load(server, "flood", requests=200, prompt_tokens=20, max_tokens=16)
        flood = group(run)
        assert flood["answered"] + flood["refused_429"] == flood["requests"] == 200
        assert flood["answered"] >= 24 and flood["refused_429"] > 0


def test_an_idle_crowd_and_slow_readers_beside_streams(server):
    (run,) = load(server, "closed", concurrency=6, requests=12, max_tokens=24, idle=150, slow=2)
    assert run["idle_open"] == run["idle_alive"] == 150
    assert group(run)["answered"] == 12
    slow = group(run, "slow")
    assert slow["requests"] >= 2 and slow["failed"] == 0


def test_steady_streams_and_long_prompts(server):
    alone, beside = load(server, "steady", concurrency=3, seconds=2, long_every=400, long_prompt=600, max_tokens=1500)
    for run in (alone, beside):
        assert group(run)["cut"] >= 2, "they are at it to the end (one may be between two answers)"
    assert group(alone)["tokens"] > 0
    assert group(beside, "long")["requests"] >= 1


def test_prompts_that_begin_alike(server):
    (run,) = load(server, "prefix", requests=1, prefix_tokens=300, max_tokens=4)
    cold, warm = group(run, "cold"), group(run, "warm")
    assert cold["answered"] == 1 and warm["answered"] == 3
    # All of the prefix but what it shares a block with, each time.
    assert cold["cached_tokens"] < 50 and warm["cached_tokens"] > 3 * 200


def test_clients_that_vanish(server):
    (run,) = load(server, "vanish", requests=300, wave=100, wave_ms=50, max_tokens=1500)
    vanished = group(run, "vanish")
    assert vanished["left"] == vanished["requests"] == 300
    assert vanished["tokens"] > 0, "nobody was in the middle of an answer"


def test_resumable_streams_and_clients_that_do_not_come_back():
    extra = json.dumps({"stream_options": {"include_usage": True, "resumable_seconds": 1}})
    with Server() as server:
        (run,) = load(server, "closed", concurrency=6, requests=12, max_tokens=24, logprobs=True, extra=extra)
        assert group(run)["answered"] == 12
        (run,) = load(server, "vanish", requests=60, wave=30, wave_ms=50, max_tokens=1500, extra=extra)
        assert group(run, "vanish")["left"] == 60


def test_a_client_program_that_is_killed(server):
    line = [LOAD, "closed", "--url", server.url, "--concurrency", "60", "--seconds", "60", "--max-tokens", "1500"]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL) as client:
        wait_until(lambda: server.get("/health").json["running"] > 20)
        client.send_signal(signal.SIGKILL)
    wait_until(lambda: set(server.get("/health").json[name] for name in ("running", "waiting", "kv_blocks_used")) == {0})
    load(server, "closed", concurrency=2, requests=4, max_tokens=4)


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


@pytest.mark.slow
def test_a_thousand_idle_connections_and_64_streams(server):
    (run,) = load(server, "closed", concurrency=64, requests=128, max_tokens=64, idle=1000)
    assert run["idle_alive"] == 1000 and group(run)["answered"] == 128


@pytest.mark.slow
def test_a_flood_of_five_thousand():
    with Server("--max-num-queued-reqs", 100) as server:
        (run,) = load(server, "flood", requests=5000, prompt_tokens=20, max_tokens=8)
        flood = group(run)
        assert flood["answered"] + flood["refused_429"] == 5000
        assert flood["answered"] >= 164 and flood["refused_429"] > 0


@pytest.mark.slow
def test_ten_thousand_clients_vanish(server):
    (run,) = load(server, "vanish", requests=10_000, wave=500, max_tokens=1500)
    assert group(run, "vanish")["left"] == 10_000
    load(server, "closed", concurrency=8, requests=16, max_tokens=16)


@pytest.mark.slow
def test_memory_is_flat_over_ten_thousand_requests():
    flags = dict(concurrency=16, prompt_tokens=20, max_tokens=2)
    with Server() as server:
        load(server, "closed", requests=2000, seed=1, **flags)  # the allocator's pools have their size then
        (run,) = load(server, "closed", requests=10_000, seed=2, **flags)
        assert group(run)["answered"] == 10_000
        # 8 MiB: 800 bytes a request. A leaked session or stream is far more than that.
        assert run["after"]["rss_mib"] - run["before"]["rss_mib"] < 8
        assert run["after"]["descriptors"] <= run["before"]["descriptors"] + 2
