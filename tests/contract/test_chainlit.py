"""Tutorial contract, row 31: the tutorial's own Chainlit app works unchanged."""
import asyncio
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import types
import urllib.error
import urllib.request

import pytest

from erne_server import SOURCE, Server, free_port
from python_packages import bin_with

APP = SOURCE / "examples/chainlit/app.py"
START_TIMEOUT_S = 120


@pytest.fixture(scope="module")
def server():
    with Server("--served-model-name", "ernie-4.5-0.3b-pt-awq") as server:
        yield server


def load_app(monkeypatch, url=None):
    """The app with a stand-in for Chainlit: (the app, Chainlit's message, the texts that are sent). No `url`: the app's own."""
    sent = []

    class Message:
        def __init__(self, content):
            self.content = content

        async def send(self):
            sent.append(self.content)

    stand_in = types.ModuleType("chainlit")
    stand_in.Message, stand_in.on_message = Message, lambda function: function
    monkeypatch.setitem(sys.modules, "chainlit", stand_in)
    monkeypatch.delenv("ERNE_URL", raising=False)
    if url:
        monkeypatch.setenv("ERNE_URL", url)
    spec = importlib.util.spec_from_file_location("chainlit_example", APP)
    app = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(app)
    return app, Message, sent


def test_row_31_the_apps_request(server, monkeypatch):
    app, Message, sent = load_app(monkeypatch, server.url)
    for question in ("你好，你是谁？", "用三句话介绍量子计算"):
        asyncio.run(app.on_message(Message(question)))
    assert len(sent) == 2 and all(re.search("[\u4e00-\u9fff]", text) and "请求失败" not in text for text in sent)


def test_row_31_the_app_says_when_nobody_answers(monkeypatch):
    app, Message, sent = load_app(monkeypatch, f"http://127.0.0.1:{free_port()}")
    asyncio.run(app.on_message(Message("你好")))
    assert len(sent) == 1 and sent[0].startswith("请求失败：") and sent[0].endswith("请稍后重试")


def test_row_31_the_app_asks_at_the_tutorials_address(monkeypatch):
    app, _, _ = load_app(monkeypatch)
    assert (app.ERNE_URL, app.MODEL) == ("http://localhost:8000", "ernie-4.5-0.3b-pt-awq")


@pytest.fixture(scope="module")
def chainlit_bin():
    return bin_with("chainlit")


def wait_for(url, process, log):
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(url, timeout=5) as page:
                return page.read().decode()
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise AssertionError(f"Chainlit is not up after {START_TIMEOUT_S} s:\n{log.read_text()}")


@pytest.mark.slow
def test_row_31_under_chainlit_itself(server, chainlit_bin, tmp_path):
    """`chainlit run app.py -w`, on free ports, visited through its socket as its page would."""
    shutil.copyfile(APP, tmp_path / "app.py")
    port, log = free_port(), tmp_path / "chainlit.log"
    environment = {**os.environ, "ERNE_URL": server.url, "CHAINLIT_PORT": str(port), "HOME": str(tmp_path)}
    with open(log, "wb") as sink:
        process = subprocess.Popen([chainlit_bin / "chainlit", "run", "app.py", "-w", "--headless"], cwd=tmp_path,
                                   env=environment, stdout=sink, stderr=sink, start_new_session=True)
    try:
        url = f"http://127.0.0.1:{port}"
        assert "<html" in wait_for(url, process, log)
        visit = subprocess.run([chainlit_bin / "python", SOURCE / "tests/contract/chainlit_visitor.py", url, "你好，你是谁？"],
                               capture_output=True, text=True, timeout=120)
        assert visit.returncode == 0, visit.stderr + log.read_text()
        answer = json.loads(visit.stdout)
        assert re.search("[\u4e00-\u9fff]", answer["output"]) and "请求失败" not in answer["output"]
        assert not answer["isError"]
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # the watcher's processes too
        process.wait(30)
