"""What a hostile or careless environment does to the program: it answers with one clear line, or goes on."""
import os
import socket
import subprocess
import threading

import pytest

from erne_server import BINARY, MINI, Server, free_port


def run(*arguments, **kwargs):
    return subprocess.run([str(BINARY), *map(str, arguments)], capture_output=True, timeout=60, **kwargs)


def answer_once(data):
    """A port whose first client gets `data`, whatever it asks."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer():
        client, _ = listener.accept()
        with client:
            client.recv(4096)
            client.sendall(data)
        listener.close()

    threading.Thread(target=answer, daemon=True).start()
    return listener.getsockname()[1]


@pytest.mark.parametrize("data", [b"", b"HTTP/1.", b"HTTP/1.1", b"HTTP/1.1 20", b"\xff" * 100, b"HTTP/2 200 \r\n\r\n"])
def test_erne_health_takes_garbage_for_unhealthy(data):
    result = run("health", "--url", f"http://127.0.0.1:{answer_once(data)}")
    assert result.returncode == 1, result
    assert result.stdout.decode() == "未响应\n"


def test_erne_health_names_the_url_it_was_given():
    result = run("health", "--url", "http://[::1")
    assert result.returncode == 2 and b"'http://[::1'" in result.stderr


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("serve", "--help"), ("logits", MINI, "--ids", "5")])
def test_output_that_cannot_be_written_is_an_error(arguments):
    with open("/dev/full", "wb") as full:
        result = subprocess.run([str(BINARY), *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert result.returncode == 1
    assert b"cannot write to standard output" in result.stderr


def test_an_empty_argument_is_an_error():
    result = run("serve", "")  # "$MODEL" of a script, where MODEL is not set
    assert result.returncode == 2 and b"an argument is empty" in result.stderr


def test_standard_streams_may_be_closed():
    port = free_port()
    command = [str(BINARY), "serve", "--port", str(port), "--ui-port", "0"]
    # A process between us and the program, for Python reports the failure of exec over a pipe of its own.
    shell = subprocess.Popen(["sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh", *command])
    server = Server(port=port)
    server.process, server.read_log = shell, lambda: ""
    try:
        server.wait_ready()
        # Log lines must not go where a socket took the number of a stream.
        assert {os.readlink(f"/proc/{shell.pid}/fd/{fd}") for fd in (0, 1, 2)} == {"/dev/null"}
    finally:
        shell.terminate()
    assert shell.wait(60) == 0


def test_whoever_waits_for_the_log_may_ask_at_once():
    port = free_port()
    command = [str(BINARY), "serve", "--port", str(port), "--ui-port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stderr:
                if "Running on" in line:
                    break
            answer = Server(port=port).chat("hi", max_tokens=1)
            assert answer.status == 200, answer.text
        finally:
            process.terminate()


def test_a_context_without_room_is_refused():
    result = run("serve", "--max-model-len", "1", "--port", free_port(), "--ui-port", "0")
    assert result.returncode == 1
    assert b"a context of 1 token has no room" in result.stderr.splitlines()[-1]


def copy_of_mini(folder):
    """A folder of this name (any bytes) that links to the files of erne-mini."""
    os.makedirs(folder)
    for file in os.scandir(MINI):
        if file.is_file():
            os.symlink(file.path, os.path.join(os.fsencode(folder), os.fsencode(file.name)))
    return folder


@pytest.mark.parametrize("name", ["with space", "ERNIE-4.5.0.3B", "模型 你好", "new\nline", "quote\"'`$(id)", "%s%n"])
def test_folders_may_have_any_name(tmp_path, name):
    with Server(copy_of_mini(tmp_path / name)) as server:
        assert server.chat("hi", max_tokens=1).json["error"]["param"] == "model"  # asks for erne-mini
        answer = server.chat("hi", max_tokens=1, model=name)
        assert answer.status == 200 and answer.json["model"] == name
        lines = server.read_log().splitlines()
        assert all(line.startswith("20") for line in lines), lines  # each begins with the year: none is torn


def test_a_folders_name_may_be_no_utf8(tmp_path):
    folder = copy_of_mini(os.fsencode(tmp_path) + b"/bad\xff")
    with Server(os.fsdecode(folder)) as server:
        card = server.get("/v1/models").json["data"][0]
        assert card["id"] == "bad\ufffd" and card["root"].endswith("/bad\ufffd")
        assert server.chat("hi", max_tokens=1, model="bad\ufffd").status == 200


def start_error(folder):
    """The one line with which a broken model is refused."""
    result = run("serve", folder, "--port", free_port(), "--ui-port", "0")
    assert result.returncode == 1, result
    errors = [line for line in result.stderr.decode().splitlines() if " INFO " not in line]
    assert len(errors) == 1, errors
    return errors[0]


def test_a_link_to_nothing_is_named(tmp_path):
    folder = copy_of_mini(tmp_path / "model")
    for name in ("tokenizer.model", "tokenizer_config.json", "model.safetensors", "config.json"):  # the last read first
        (folder / name).unlink()
        (folder / name).symlink_to("../blobs/0123")
        assert f"{folder}/{name}: a link to nothing" in start_error(folder)


def test_broken_files_are_named_with_their_folder(tmp_path):
    folder = copy_of_mini(tmp_path / "model")
    for name, text in {"generation_config.json": '{"top_k":1.5}', "chat_template.jinja": "{# silent #}",
                       "tokenizer_config.json": "{", "config.json": "[]"}.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_text(text)
        assert f"{folder}/{name}" in start_error(folder)
    (folder / "config.json").write_text((MINI / "config.json").read_text())
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    (folder / "model.safetensors.index.json").write_text('{"weight_map":{"a":"../../etc/passwd"}}')
    assert f"{folder}: `../../etc/passwd` is not a file name" in start_error(folder)
