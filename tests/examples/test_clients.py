"""The examples that ask the API: each is run as its reader would run it, against the real program."""
import contextlib
import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import urllib.request
import zipfile

import pytest

from browser import chromium
from erne_server import BINARY, SOURCE, free_port
from python_packages import bin_with

EXAMPLES = SOURCE / "examples"
POEM = "写一首关于春天的七言绝句"


def run(command, url, **environment):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "ERNE_URL": url, **environment})


def expected(server, question=POEM, **fields):
    return server.chat(question, temperature=0.3, **fields).json["choices"][0]["message"]["content"]


def test_the_openai_client(mini):
    done = run([sys.executable, EXAMPLES / "python/openai_chat.py", POEM], mini.url)
    assert done.returncode == 0 and len(done.stdout) > 10, done.stderr


@pytest.fixture(scope="module")
def node():
    return shutil.which("node") or pytest.skip("there is no node here")


def test_node(mini, node):
    done = run([node, EXAMPLES / "node/chat.mjs", POEM], mini.url)
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected(mini, seed=1) + "\n"


def test_node_says_what_was_wrong(mini, node):
    done = run([node, EXAMPLES / "node/chat.mjs", POEM], mini.url, ERNE_MODEL="gpt-9")
    assert done.returncode == 1 and "Model not found" in done.stderr
    done = run([node, EXAMPLES / "node/chat.mjs", POEM], f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 1 and "请求失败" in done.stderr


def test_the_javascript_stream_however_it_is_cut(node):
    """Characters and events over the edges of what the network delivers; errors on the way; a cut connection."""
    script = """
      import { streamChat } from %s;
      const event = (content) => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\\n\\n`;
      async function read(text, size) {
        const bytes = new TextEncoder().encode(text);
        globalThis.fetch = async () => new Response(new ReadableStream({
          start(controller) {
            for (let i = 0; i < bytes.length; i += size) controller.enqueue(bytes.slice(i, i + size));
            controller.close();
          },
        }));
        let answer = "";
        try {
          for await (const piece of streamChat({ url: "" })) answer += piece;
        } catch (error) {
          answer += `!${error.message}`;
        }
        return answer;
      }
      const words = ["春眠", "👩‍👩‍👧‍👦", "不觉晓。\\n"];
      const good = ": keep-alive\\n\\n" + words.map(event).join("");
      const results = new Set();
      for (let size = 1; size < 200; ++size) {
        results.add(await read(good + "data: [DONE]\\n\\n", size));
        results.add(await read(good + 'data: {"error":{"message":"no memory"}}\\n\\ndata: [DONE]\\n\\n', size));
        results.add(await read(good, size));
      }
      console.log(JSON.stringify([...results]));
    """ % json.dumps((EXAMPLES / "vue/chat.js").as_uri())
    done = subprocess.run([node, "--input-type=module", "-e", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    text = "春眠👩‍👩‍👧‍👦不觉晓。\n"
    assert json.loads(done.stdout) == [text, text + "!no memory", text + "!the answer was cut off"]


def test_polishing_a_folder(tmp_path):
    manuals, polished = tmp_path / "manuals", tmp_path / "polished"
    manuals.mkdir()
    for i in range(100):
        (manuals / f"{i:03}.txt").write_text(f"第{i}号设备：使用前请检查电源。", encoding="utf-8")
    (manuals / "picture.png").write_bytes(b"\x89PNG")
    command = [sys.executable, EXAMPLES / "polish/polish.py", "--erne", BINARY, manuals, polished]
    done = run(command, "")
    assert done.returncode == 0, done.stderr
    assert len(list(polished.glob("*.txt"))) == 100 and (polished / "007.txt").read_text(encoding="utf-8").strip()
    (manuals / "more.txt").write_text("不要用湿手触摸。", encoding="utf-8")
    done = run(command, "")
    assert done.returncode == 0 and "1 lines answered" in done.stderr and "100 had an answer already" in done.stderr
    assert (polished / "more.txt").exists()


@pytest.mark.slow
@pytest.mark.parametrize("script", ["langchain_chat.py", "llama_index_chat.py"])
def test_libraries(mini, script):
    done = run([bin_with("clients") / "python", EXAMPLES / "python" / script, "春天"], mini.url)
    assert done.returncode == 0, done.stderr
    assert any("\u4e00" <= character <= "\u9fff" for character in done.stdout), done.stdout


@contextlib.contextmanager
def serving(folder):
    """Serves a folder as examples/README.md says; its address."""
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_vue_pages_files(mini):
    """What the page asks for is there, and erne lets a page of another origin ask."""
    with serving(EXAMPLES / "vue") as page:
        with urllib.request.urlopen(page + "/") as answer:
            text = answer.read().decode()
        assert "./chat.js" in text and "createApp" in text
        with urllib.request.urlopen(page + "/chat.js") as answer:
            assert "javascript" in answer.headers["Content-Type"]
    asked = mini.request("OPTIONS", "/v1/chat/completions", headers={
        "Origin": page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"})
    assert asked.status == 204 and asked.headers["Access-Control-Allow-Origin"] == "*"
    assert "content-type" in asked.headers["Access-Control-Allow-Headers"].lower()


@pytest.fixture(scope="module")
def vue_file():
    """A copy of Vue 3 out of a Python package that brings one."""
    wanted, found = "nicegui==3.18.0", SOURCE / ".cache/vue/vue.esm-browser.prod.js"
    if not found.exists():
        found.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", found.parent, wanted],
                              capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"{wanted} is not to be had here: {done.stderr.strip()[-300:]}")
        with zipfile.ZipFile(next(found.parent.glob("nicegui-*.whl"))) as wheel:
            found.write_bytes(wheel.read("nicegui/static/vue.esm-browser.prod.js"))
    return found


@pytest.mark.slow
def test_the_vue_page_in_a_browser(mini, vue_file, tmp_path):
    """A question is typed and sent, and the answer streams in; then the server is not to be reached."""
    shutil.copytree(EXAMPLES / "vue", tmp_path / "page")
    shutil.copy(vue_file, tmp_path / "page/vue.js")
    index = tmp_path / "page/index.html"
    text = index.read_text(encoding="utf-8").replace("https://unpkg.com/vue@3/dist/vue.esm-browser.prod.js", "./vue.js")
    index.write_text(text, encoding="utf-8")
    with serving(tmp_path / "page") as page, chromium(tmp_path / "profile") as browser:
        def ask(url):
            browser.open(f"{page}/?erne={url}")
            browser.wait_for("document.querySelectorAll('textarea').length === 1")
            browser.run("""{
              const box = document.querySelector("textarea");
              box.value = "你好";
              box.dispatchEvent(new Event("input"));
              document.querySelector("form").requestSubmit();
            }""")
        ask(mini.url)
        assert browser.wait_for("document.querySelector('button').textContent === '发送' && "
                                "document.querySelector('.assistant').textContent")
        assert browser.run("document.querySelector('.user').textContent") == "你好"
        assert browser.run("document.querySelector('.error')") is None
        ask(f"http://127.0.0.1:{free_port()}")
        assert browser.wait_for("document.querySelector('.error').textContent").startswith("请求失败")
