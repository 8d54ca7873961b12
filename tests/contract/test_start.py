"""Tutorial contract, "Start and see that it runs": rows 1 to 5 and 7 to 9."""
import os
import re
import socket
import subprocess
import threading

import pytest

from erne_server import BINARY, Server, content_of, free_port
from tutorial_folder import make_tutorial_folder

LOG_STRINGS = ["Starting OpenAI API server", "Engine started.", "Loaded model {name}", "Running on http://{host}:{port}",
               "Total num sequences: 0, total num tokens: 0"]


def assert_log_strings(log, name, host, port):
    """All of the contract's substrings stand in the last 10 lines, in this order."""
    tail = log.splitlines()[-10:]
    at = -1
    for text in LOG_STRINGS:
        text = text.format(name=name, host=host, port=port)
        found = [i for i, line in enumerate(tail) if text in line]
        assert found, f"{text!r} is not in the last 10 lines:\n" + "\n".join(tail)
        assert found[0] > at, f"{text!r} is out of order"
        at = found[0]


@pytest.fixture(scope="module")
def tutorial_dir(tmp_path_factory):
    return make_tutorial_folder(tmp_path_factory.mktemp("models") / "ERNIE-4.5-0.3B-PT")


def test_row_01_the_tutorials_command_line(tutorial_dir, tmp_path):
    port, log_file = free_port(), tmp_path / "vllm.log"
    line = (f"nohup {BINARY} serve --model {tutorial_dir} --host 0.0.0.0 --port {port} --tensor-parallel-size 1 --dtype half "
            f"--quantization awq --enable-prefix-caching --max-model-len 2048 --gpu-memory-utilization 0.9 "
            f"--ui-port=0 > {log_file} 2>&1 & echo $!")
    pid = int(subprocess.run(["bash", "-c", line], stdout=subprocess.PIPE, check=True).stdout)
    server = Server(port=port)
    server.process = type("Running", (), {"poll": staticmethod(lambda: None)})
    server.read_log = lambda: log_file.read_text(encoding="utf-8")
    try:
        server._log_file = log_file
        server.wait_ready()
        # The model answers to the names that the tutorials use, in any letter case.
        for name in ("ERNIE-4.5-0.3B-PT", "ernie-4.5-0.3b-pt", str(tutorial_dir)):
            answer = server.post("/v1/chat/completions", {
                "model": name, "messages": [{"role": "user", "content": "你好"}], "max_tokens": 4})
            assert answer.status == 200, answer.text
        log = server.read_log()
        assert_log_strings(log, "ernie-4.5-0.3b-pt", "0.0.0.0", port)
        assert "half" in log and "CPU" in log  # what half means on a machine without a GPU
    finally:
        os.kill(pid, 15)


def test_row_01_serve_takes_the_folder_as_an_argument(tutorial_dir):
    with Server(tutorial_dir) as server:
        assert server.get("/v1/models").json["data"][0]["root"] == str(tutorial_dir)


@pytest.mark.parametrize("flag, nearest", [("--max-model-length", "--max-model-len"), ("--prot", "--port"),
                                           ("--served-model-nam=x", "--served-model-name")])
def test_row_01_an_unknown_flag_names_the_nearest(flag, nearest):
    done = subprocess.run([BINARY, "serve", flag, "1"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert flag.split("=")[0] in done.stderr and nearest in done.stderr


def test_row_02_log_lines_at_ready(tmp_path):
    log_file = tmp_path / "logs" / "deep" / "erne.log"
    with Server("--log-file", log_file) as server:
        log = log_file.read_text(encoding="utf-8")
        assert_log_strings(log, "erne-mini", "127.0.0.1", server.port)
        assert f"Running on {server.url} (API and page)" in log  # one port, so one address
        assert "\033" not in log
        for line in log.splitlines():
            assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (DEBUG|INFO|WARNING|ERROR) \[[a-z_]+:\d+\] ", line), line


def test_row_02_json_log():
    import json
    with Server("--log-format", "json") as server:
        entries = [json.loads(line) for line in server.read_log().splitlines()]
    assert any("Engine started." in entry["text"] for entry in entries)
    assert {"time", "level", "component", "line", "text"} <= set(entries[0])


def test_row_03_the_api_answers_before_the_model_is_loaded(tutorial_dir):
    # The socket is bound before the weights load, so somebody who connects as soon as the port is open and asks until the
    # server is ready sees nothing but "loading" answers, then 200.
    seen = []
    with Server(tutorial_dir, wait=False) as server:
        while server.process.poll() is None:
            try:
                answer = server.get("/health")
                chat = server.chat("hi", max_tokens=1) if answer.status == 503 else None
            except (ConnectionError, OSError):
                continue
            seen.append(answer)
            if chat is not None and chat.status == 503:
                assert int(chat.headers["Retry-After"]) >= 1
                assert chat.json["error"]["code"] == 503
            if answer.status == 200:
                break
            assert answer.status == 503 and answer.json["status"] == "loading"
            assert 0 <= answer.json["progress"] <= 1
        assert seen and seen[-1].status == 200
        log = server.read_log()
        assert log.index("Starting OpenAI API server") < log.index("Engine started.")


def test_row_04_the_tutorials_curl(mini):
    body = '{"model": "erne-mini", "messages": [{"role": "user", "content": "你好"}], "temperature": 0.3}'
    done = subprocess.run(["curl", "-sS", "-X", "POST", f"{mini.url}/v1/chat/completions", "-H",
                           "Content-Type: application/json", "-d", body], capture_output=True, check=True, timeout=60)
    text = done.stdout.decode("utf-8")
    assert "\\u" not in text
    import json
    answer = json.loads(text)
    message = answer["choices"][0]["message"]
    assert message["role"] == "assistant" and re.search("[\u4e00-\u9fff]", message["content"])
    assert all(answer["usage"][key] > 0 for key in ("prompt_tokens", "completion_tokens", "total_tokens"))


def test_row_04_broken_json_names_the_byte(mini):
    answer = mini.post("/v1/chat/completions", b'{"model": "erne-mini", "messages" [}')
    assert answer.status == 400
    error = answer.json["error"]
    assert error["type"] == "BadRequestError" and "byte 34" in error["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_row_05_wrong_model_name(mini, stream):
    answer = mini.post("/v1/chat/completions", {"model": "gpt-9", "messages": [{"role": "user", "content": "hi"}],
                                                "stream": stream})
    assert answer.status == 404
    error = answer.json["error"]
    assert (error["type"], error["param"], error["code"]) == ("NotFoundError", "model", 404)
    assert "Model not found" in error["message"] and "`gpt-9` does not exist" in error["message"]
    assert "erne-mini" in error["message"]


def test_row_05_served_model_names(tutorial_dir):
    with Server(tutorial_dir, "--served-model-name", "Ernie", "文心") as server:
        assert [model["id"] for model in server.get("/v1/models").json["data"]][:2] == ["Ernie", "文心"]
        for name in ("Ernie", "ernie", "文心"):
            body = {"model": name, "messages": [{"role": "user", "content": "你好"}], "max_tokens": 2}
            assert server.post("/v1/chat/completions", body).status == 200


def test_row_07_and_08_loads_with_progress_and_is_warm_before_ready():
    with Server() as server:
        log = server.read_log()
    progress = [int(percent) for percent in re.findall(r"(\d+) ?%", log[:log.index("Running on")])]
    assert progress and progress == sorted(progress) and progress[-1] == 100
    assert log.index("arm-up") < log.index("Running on")


def test_row_09_health_answers_while_the_engine_works(mini):
    done = threading.Event()

    def work():
        mini.chat("写一首关于春天的七言绝句", max_tokens=150, ignore_eos=True)
        done.set()

    worker = threading.Thread(target=work)
    worker.start()
    polls = 0
    while not done.is_set():
        assert mini.get("/health", timeout=5).status == 200
        polls += 1
    worker.join()
    assert polls > 1


def test_row_09_erne_health_prints_and_sets_the_exit_code(mini):
    good = subprocess.run([BINARY, "health", "--url", mini.url], capture_output=True, text=True, timeout=60)
    assert (good.returncode, good.stdout.strip()) == (0, "健康")
    bad = subprocess.run([BINARY, "health", "--url", f"http://127.0.0.1:{free_port()}"], capture_output=True, text=True,
                         timeout=60)
    assert bad.returncode == 1 and bad.stdout.strip() == "未响应"
    port = ["--port", mini.url.rsplit(":", 1)[1]]
    assert subprocess.run([BINARY, "health", *port], capture_output=True, timeout=60).returncode == 0
    both = subprocess.run([BINARY, "health", "--url", mini.url, *port], capture_output=True, text=True, timeout=60)
    assert both.returncode == 2 and "leave --host and --port out" in both.stderr


def test_a_busy_api_port_names_its_holder_and_a_busy_page_port_only_warns():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        done = subprocess.run([BINARY, "serve", "--port", str(port), "--ui-port", "0"], capture_output=True, text=True,
                              timeout=60)
        assert done.returncode == 1
        assert str(port) in done.stderr and str(os.getpid()) in done.stderr
        with Server(ui_port=port) as server:
            assert server.get("/health").status == 200
            warnings = [line for line in server.read_log().splitlines() if "WARNING" in line]
            assert any(str(port) in line for line in warnings)


def test_both_ports_serve_every_route():
    ui_port = free_port()
    with Server(ui_port=ui_port) as server:
        page = Server(port=ui_port)
        for one in (server, page):
            assert "<html" in one.get("/").text
            assert one.get("/v1/models").json["data"][0]["id"] == "erne-mini"
            assert content_of(one.stream("你好", max_tokens=4))
