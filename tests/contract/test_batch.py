"""Tutorial contract, row 34: the requests of a file are answered, and a run that was killed goes on."""
import json
import pty
import os
import resource
import signal
import subprocess
import time

import pytest

from erne_server import BINARY, MINI

MANUALS = [f"第{i}号设备手册：使用前请检查电源，" + "不要用湿手触摸。" * (i % 7) for i in range(100)]


def request_of(i, **fields):
    messages = [{"role": "user", "content": "请润色：" + MANUALS[i]}]
    body = {"model": "erne-mini", "messages": messages, "temperature": 0.3, "seed": i, "max_tokens": 40} | fields
    return {"custom_id": f"manual-{i}", "method": "POST", "url": "/v1/chat/completions", "body": body}


def write(path, lines):
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)) + "\n" for line in lines),
                    encoding="utf-8")


def command(tmp_path, *flags):
    return [BINARY, "run-batch", *flags, "-i", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl"]


def run(tmp_path, *flags):
    return subprocess.run(command(tmp_path, *flags), capture_output=True, text=True, timeout=300)


def answers(tmp_path):
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    by_id = {line["custom_id"]: line for line in lines}
    assert len(by_id) == len(lines), "a line was answered twice"
    return by_id


def said(answer):
    return answer["response"]["body"]["choices"][0]["message"]["content"]


def test_row_34_one_hundred_manuals(tmp_path, mini):
    write(tmp_path / "in.jsonl", [request_of(i) for i in range(100)])
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "100/100" in done.stderr and "100 lines answered, 0 of them with an error" in done.stderr
    got = answers(tmp_path)
    assert set(got) == {f"manual-{i}" for i in range(100)}
    for line in got.values():
        assert set(line) == {"id", "custom_id", "response", "error"} and line["error"] is None
        assert set(line["response"]) == {"status_code", "request_id", "body"} and line["response"]["status_code"] == 200
        assert line["response"]["body"]["object"] == "chat.completion" and said(line)
    # What the server answers, in whatever company.
    for i in (0, 57, 99):
        assert said(got[f"manual-{i}"]) == mini.post("/v1/chat/completions", request_of(i)["body"]).json["choices"][0]["message"]["content"]


def test_row_34_killed_and_run_again(tmp_path):
    write(tmp_path / "in.jsonl", [request_of(i, max_tokens=60, ignore_eos=True) for i in range(100)])
    output = tmp_path / "out.jsonl"
    kills = 0
    while kills < 4:
        process = subprocess.Popen(command(tmp_path, "--max-num-seqs", "2"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        before = output.stat().st_size if output.exists() else 0
        deadline = time.monotonic() + 120
        while (output.stat().st_size if output.exists() else 0) <= before and process.poll() is None:
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
        with open(output, "ab") as torn:  # as a machine that loses power may leave it
            torn.write(b'{"id":"erne-7","custom_id":"man')
    left = 100 - output.read_bytes().count(b"\n")
    assert 0 < left < 100
    done = run(tmp_path)
    assert done.returncode == 0 and f"{left} lines answered" in done.stderr, done.stderr
    assert set(answers(tmp_path)) == {f"manual-{i}" for i in range(100)}
    again = run(tmp_path)
    assert again.returncode == 0 and "0 lines answered, 0 of them with an error; 100 had an answer already" in again.stderr


def test_row_34_each_line_has_its_own_error(tmp_path):
    completion = {"custom_id": "text", "method": "POST", "url": "/v1/completions",
                  "body": {"model": "erne-mini", "prompt": "春天", "max_tokens": 3}}
    write(tmp_path / "in.jsonl", [
        '{"custom_id": "torn", "body"', "", completion, request_of(1, model="gpt-9"), request_of(1, model="gpt-9"),
        request_of(2, temperature=-1), request_of(3, stream=True), request_of(4) | {"url": "/v1/embeddings"},
        request_of(5, n=64, max_tokens=2), request_of(6, n=64, max_tokens=2)])
    done = run(tmp_path, "--max-num-seqs", "8", "--max-num-queued-reqs", "60")
    assert done.returncode == 1, "some lines have errors"
    got = answers(tmp_path)
    assert got["text"]["response"]["body"]["object"] == "text_completion"
    errors = {"line-1": "invalid JSON at byte", "manual-1": "Model not found", "line-5": "`custom_id` manual-1 is that of a line",
              "manual-2": "`temperature` must be", "manual-3": "a batch has no streams", "manual-4": "`url` must be"}
    for name, says in errors.items():
        assert says in got[name]["error"]["message"], got[name]
        assert got[name]["response"] is None or got[name]["response"]["body"] is None
    assert got["manual-1"]["response"]["status_code"] == 404 and got["manual-2"]["error"]["param"] == "temperature"
    # Two lines with more answers together than the server takes at a time: one after the other.
    assert all(len(got[name]["response"]["body"]["choices"]) == 64 for name in ("manual-5", "manual-6"))


def test_row_34_a_bar_on_a_terminal(tmp_path):
    write(tmp_path / "in.jsonl", [request_of(i, max_tokens=4) for i in range(3)])
    reading, terminal = pty.openpty()
    process = subprocess.Popen(command(tmp_path, "--log-file", tmp_path / "log"), stdout=subprocess.DEVNULL, stderr=terminal)
    assert process.wait(120) == 0
    os.close(terminal)
    shown = b""
    try:
        while chunk := os.read(reading, 4096):
            shown += chunk
    except OSError:  # the end of what a terminal without a program has
        pass
    os.close(reading)
    assert b"[" + b"#" * 30 + b"] 3/3" in shown


@pytest.mark.parametrize("flags, code, says", [
    ([], 2, "--input-file is needed"),
    (["-i", "/no/such/file", "-o", "/dev/null"], 1, "/no/such/file"),
    (["-i", MINI, "-o", "out"], 1, "no file that can be read"),
    (["-i", MINI / "config.json", "-o", "/dev/full"], 1, "no file that can be read again"),
    (["-i", MINI / "config.json", "-o", "/no/such/folder/out"], 1, "/no/such/folder/out"),
])
def test_wrong_command_lines(flags, code, says, tmp_path):
    done = subprocess.run([BINARY, "run-batch", *flags], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == code and says in done.stderr


def test_a_full_disk_ends_the_run_and_the_next_one_goes_on(tmp_path):
    write(tmp_path / "in.jsonl", [request_of(i, max_tokens=8) for i in range(40)])

    def small():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
    done = subprocess.run(command(tmp_path), capture_output=True, text=True, preexec_fn=small, timeout=120)
    assert done.returncode == 1 and "--output-file" in done.stderr and "too large" in done.stderr
    assert (tmp_path / "out.jsonl").stat().st_size == 5000
    assert run(tmp_path).returncode == 0 and len(answers(tmp_path)) == 40


def test_other_files_are_left_alone(tmp_path):
    write(tmp_path / "in.jsonl", [request_of(0)])
    (tmp_path / "out.jsonl").write_text("my notes")
    done = run(tmp_path)
    assert done.returncode == 1 and "name another file" in done.stderr
    assert (tmp_path / "out.jsonl").read_text() == "my notes"
