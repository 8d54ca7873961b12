"""Starts the real program for a test, waits until it is ready, and stops it."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parent.parent
BINARY = pathlib.Path(os.environ.get("ERNE_BIN", SOURCE / "build/release/erne"))
MINI = SOURCE / "models/erne-mini"
READY_TIMEOUT_S = 120  # a sanitizer build on a busy machine; a release build takes about a second


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """`erne serve` as a child process. Use as a context manager."""

    def __init__(self, *flags, wait=True, ui_port=0, port=None):
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = [str(BINARY), "serve", *map(str, flags), "--port", str(self.port), "--ui-port", str(ui_port)]
        self._wait = wait

    def __enter__(self):
        self.log = ""
        self._log_file = (pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"erne-test-{os.getpid()}-{self.port}.log")
        with open(self._log_file, "wb") as sink:
            self.process = subprocess.Popen(self.command, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL)
        if self._wait:
            self.wait_ready()
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        self.read_log()
        self._log_file.unlink(missing_ok=True)
        if self.process.returncode not in (0, -signal.SIGKILL) and exc[0] is None:
            raise AssertionError(f"erne serve ended with {self.process.returncode}:\n{self.log}")

    def read_log(self):
        if self._log_file.exists():
            self.log = self._log_file.read_text(encoding="utf-8")
        return self.log

    def wait_ready(self):
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"erne serve ended with {self.process.returncode}:\n{self.read_log()}")
            try:
                if self.get("/health").status == 200:
                    return
            except (ConnectionError, urllib.error.URLError):
                pass
            time.sleep(0.02)
        raise AssertionError(f"not ready after {READY_TIMEOUT_S} s:\n{self.read_log()}")

    def request(self, method, path, body=None, headers=None, timeout=60):
        """One request; returns the answer whatever its status."""
        if isinstance(body, (dict, list)):
            body = json.dumps(body, ensure_ascii=False).encode()
        request = urllib.request.Request(self.url + path, data=body, method=method, headers=headers or {})
        if body is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return Answer(answer.status, dict(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, dict(error.headers), error.read())

    def get(self, path, **kwargs):
        return self.request("GET", path, **kwargs)

    def post(self, path, body, **kwargs):
        return self.request("POST", path, body, **kwargs)

    def chat(self, messages, **fields):
        """POST /v1/chat/completions; `messages` may be one user message."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return self.post("/v1/chat/completions", {"model": "erne-mini", "messages": messages, **fields})

    def stream(self, messages, **fields):
        """The JSON events of a streamed answer, [DONE] checked and dropped."""
        answer = self.chat(messages, stream=True, **fields)
        assert answer.status == 200, answer.text
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        lines = [line for line in re.split(r"\n\n", answer.text) if line and not line.startswith(":")]
        assert lines[-1] == "data: [DONE]", lines[-1]
        assert all(line.startswith("data: ") for line in lines)
        return [json.loads(line[len("data: "):]) for line in lines[:-1]]


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self):
        return self.body.decode("utf-8")

    @property
    def json(self):
        return json.loads(self.text)


def content_of(events):
    """The text of a streamed answer's first choice."""
    return "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])
