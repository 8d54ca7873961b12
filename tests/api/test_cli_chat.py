"""`erne chat`: the real program through a pipe, and on a terminal of its own."""
import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from erne_server import BINARY, MINI, SOURCE

GREEDY = json.loads((MINI / "expected_greedy.json").read_text(encoding="utf-8"))["cases"]
EXACT = ("--temperature", "0", "--repetition-penalty", "1")
TIMEOUT_S = 120


def chat(*arguments, stdin="", language="C.UTF-8"):
    environment = {**os.environ, "LC_ALL": language}
    return subprocess.run([BINARY, "chat", *map(str, arguments)], input=stdin.encode(), capture_output=True,
                          timeout=TIMEOUT_S, env=environment)


def test_a_pipe_gives_the_expected_answers():
    done = chat(*EXACT, "--activation-dtype", "f32", stdin="\n/clear\n".join(case["prompt"] for case in GREEDY) + "\n")
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode() == "".join(case["text"] + "\n" for case in GREEDY)
    assert b"> " not in done.stderr and b"error" not in done.stderr


def test_the_conversation_is_what_the_api_would_be_asked(mini, tmp_path):
    saved = tmp_path / "saved.json"
    done = chat("--seed", 5, "--system", "你很礼貌。", "--max-tokens", 40,
                stdin=f"你好\n/set top_p 0.5\n写一首诗\\\n关于春天\n/save {saved}\n")
    assert done.returncode == 0, done.stderr.decode()
    request = json.loads(saved.read_text(encoding="utf-8"))
    *messages, last = request.pop("messages")
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert messages[3]["content"] == "写一首诗\n关于春天" and last["role"] == "assistant"
    assert request == {"model": "erne-mini", "seed": 5, "max_tokens": 40, "top_p": 0.5}
    assert done.stdout.decode() == messages[2]["content"] + "\n" + last["content"] + "\n"
    answer = mini.post("/v1/chat/completions", {**request, "messages": messages}).json
    assert answer["choices"][0]["message"]["content"] == last["content"]
    first = mini.chat(messages[:2], seed=5, max_tokens=40).json
    assert first["choices"][0]["message"]["content"] == messages[2]["content"]


def test_blocks_and_control_tokens(tmp_path):
    saved = tmp_path / "saved.json"
    stdin = f'"""\n/help\n</s> a\\\n"""\n//x\n/save {saved}\n'
    assert chat(*EXACT, "--max-tokens", 4, stdin=stdin).returncode == 0
    messages = json.loads(saved.read_text(encoding="utf-8"))["messages"]
    assert [message["content"] for message in messages[::2]] == ["/help\n</s> a\\", "/x"]


def test_what_was_begun_when_the_pipe_ends_is_asked():
    assert chat(*EXACT, stdin='"""你好').stdout == chat(*EXACT, stdin="你好").stdout != b""
    assert chat(stdin="").returncode == 0 and chat(stdin="\n \n").stdout == b""


def test_asking_again_draws_anew():
    done = chat("--seed", 1, "--temperature", 1, "--max-tokens", 40, stdin="写一首诗\n/regen\n")
    first, second = chat("--seed", 1, "--temperature", 1, "--max-tokens", 40,
                         stdin="写一首诗\n").stdout, chat("--seed", 2, "--temperature", 1, "--max-tokens", 40,
                                                      stdin="写一首诗\n").stdout
    assert first != second and done.stdout == first + second


def test_the_oldest_turns_go_when_the_context_is_full():
    lines = "".join(f"第{i}句：" + "春夏秋冬" * 8 + "\n" for i in range(6))
    done = chat("--max-model-len", 256, "--max-tokens", 20, "--temperature", 0, stdin=lines)
    assert done.returncode == 0, done.stderr.decode()
    assert "the oldest 1 turn is no longer part of it" in done.stderr.decode()
    done = chat("--max-model-len", 256, "--max-tokens", 20, stdin=lines, language="zh_CN.UTF-8")
    assert "最早的 1 轮对话不再保留" in done.stderr.decode()


def test_a_message_that_is_too_long_is_an_error_and_not_the_end():
    done = chat("--max-model-len", 128, *EXACT, stdin="好" * 500 + "\n你好\n")
    assert done.returncode == 1  # some of the input got no answer
    assert "128 tokens" in done.stderr.decode()
    assert done.stdout.decode() == next(case["text"] for case in GREEDY if case["prompt"] == "你好") + "\n"


def test_commands_tell():
    done = chat("--top-k", 7, stdin="/set\n/set top_k default\n/set temprature 1\n/set seed x\n/hlep\n/help\n/system\n"
                                    "/save\n/save /no/such/folder/x\n/regen\n/quit\n你好\n", language="en_US.UTF-8")
    assert done.returncode == 1 and done.stdout == b""
    said = done.stderr.decode()
    for expected in ["(top_k 7)", "(nothing is set", "did you mean temperature?", "`seed`", "did you mean /help?",
                     "/regen            answers", "no system message", "/save needs", "cannot write /no/such", "nothing was asked"]:
        assert expected in said, expected
    done = chat(stdin="/help\n/clear\n", language="zh_CN.UTF-8")
    assert done.returncode == 0 and "重新回答" in done.stderr.decode() and "对话已清空" in done.stderr.decode()


@pytest.mark.parametrize("arguments, code, says", [
    (("--temperature", "-1"), 2, "temperature"), (("--top-k", "x"), 2, "top_k"), (("--temprature", "1"), 2, "--temperature"),
    (("/no/such/model",), 1, "/no/such/model"), (("--max-model-len", "9999"), 1, "2048"),
    ((SOURCE / "tests/data/reference-models/qwen2",), 1, "tokenizer"), (("a", "b"), 2, "'b'")])
def test_faults(arguments, code, says):
    done = chat(*arguments, stdin="你好\n")
    assert (done.returncode, done.stdout) == (code, b"")
    assert says in done.stderr.decode() and done.stderr.startswith(b"erne chat: ")


def test_a_reader_that_goes_away_ends_it():
    process = subprocess.Popen([BINARY, "chat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.close()
    process.stdin.write("你好\n你好\n".encode())
    process.stdin.flush()
    assert process.wait(TIMEOUT_S) == 1  # although its input goes on
    process.stdin.close()


class Terminal:
    """`erne chat` on a pseudo-terminal."""

    def __init__(self, *arguments):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(LC_ALL="C.UTF-8", TERM="xterm")
            os.execv(BINARY, [str(BINARY), "chat", *map(str, arguments)])
        self.seen = ""

    def expect(self, pattern):
        """Waits until `pattern` comes; takes everything up to its end."""
        deadline = time.monotonic() + TIMEOUT_S
        while not (match := re.search(pattern, self.seen)):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.seen!r}"
            if select.select([self.fd], [], [], 1)[0]:
                self.seen += os.read(self.fd, 65536).decode("utf-8", "replace")
        before, self.seen = self.seen[:match.end()], self.seen[match.end():]
        return before

    def send(self, text):
        os.write(self.fd, text.encode())

    def exit_code(self):
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    os.read(self.fd, 65536)
                except OSError:  # the other side is closed
                    pass
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError("it does not end")


# An answer that would take long: no end token ends it, nor does going in circles.
LONG = ("--max-tokens", 1900, "--seed", 1)


def test_a_terminal_has_prompts_and_is_left_with_control_d():
    terminal = Terminal(*EXACT)
    terminal.expect(r"erne-mini: ernie4_5_moe.*\r\n\(context 2048 tokens; /help .*\)\r\n> ")
    terminal.send("你好\n")
    assert next(case["text"] for case in GREEDY if case["prompt"] == "你好") in terminal.expect(r"\r\n> ")
    terminal.send("a\\\n")
    terminal.expect(r"\. ")
    terminal.send("b\n")
    terminal.expect(r"\r\n> ")
    terminal.send("\x04")
    assert terminal.exit_code() == 0


def test_control_c_stops_the_answer_and_a_second_one_leaves():
    terminal = Terminal(*LONG)
    terminal.expect("> ")
    terminal.send("/set ignore_eos true\n")
    terminal.expect("> ")
    terminal.send("写一首诗\n")
    terminal.expect(r"写一首诗\r\n[^\r]*[\u4e00-\u9fff]{2}")  # it has begun
    terminal.send("\x03")
    terminal.expect(r"\(stopped\)\r\n> ")
    terminal.send("你好\n")  # the conversation goes on
    terminal.expect(r"你好\r\n[^\r]*[\u4e00-\u9fff]{2}")
    terminal.send("\x03")
    terminal.expect(r"\(stopped\)\r\n> ")
    terminal.send("\x03")
    assert terminal.exit_code() == 0


def test_control_c_at_the_prompt_asks_once_more():
    terminal = Terminal(*EXACT)
    terminal.expect("> ")
    terminal.send("half a message\x03")
    terminal.expect(r"\(\^C once more or \^D leaves\)\r\n> ")
    terminal.send("你好\n")  # what was typed before is forgotten
    assert next(case["text"] for case in GREEDY if case["prompt"] == "你好") in terminal.expect(r"\r\n> ")
    terminal.send("\x03")
    terminal.expect(r"\(\^C once more or \^D leaves\)\r\n> ")
    terminal.send("\x03")
    assert terminal.exit_code() == 0
