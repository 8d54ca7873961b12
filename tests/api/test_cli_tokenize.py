"""`erne tokenize`: text to token ids and back, by the real program."""
import json
import os
import subprocess

import pytest

from erne_server import BINARY, MINI, SOURCE

GREEDY = json.loads((MINI / "expected_greedy.json").read_text(encoding="utf-8"))["cases"]
MODELS = [(), (MINI,), (SOURCE / "tests/data/tokenizers/erne-mini-json",)]  # embedded, its folder, the other format
TEXT = "你好,  world!\tİ 𠮷\u0301 <|end_of_sentence|>\r\n\\n  \n"


def tokenize(*arguments, stdin="", language="C.UTF-8"):
    environment = {**os.environ, "LC_ALL": language}
    return subprocess.run([BINARY, "tokenize", *map(str, arguments)], input=stdin.encode(), capture_output=True,
                          timeout=60, env=environment)


def ids_of(*arguments, **kwargs):
    done = tokenize(*arguments, **kwargs)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.endswith(b"]\n") and done.stdout.count(b"\n") == 1
    return json.loads(done.stdout)


@pytest.mark.parametrize("model", MODELS)
def test_prompts_have_the_ids_that_the_model_was_trained_with(model):
    for case in GREEDY:
        prompt = f"<|begin_of_sentence|>User: {case['prompt']}\nAssistant: "
        assert ids_of(*model, "--text", prompt, "--special") == case["prompt_ids"]
        text = tokenize(*model, "--decode", "--text", json.dumps(case["prompt_ids"])).stdout.decode()
        assert text == prompt + "\n"


@pytest.mark.parametrize("model", MODELS)
def test_a_control_token_is_text_unless_asked_for(model):
    assert ids_of(*model, "--text", "</s>", "--special") == [2]
    spelled = ids_of(*model, "--text", "</s>")
    assert len(spelled) > 1 and 2 not in spelled


@pytest.mark.parametrize("model", MODELS)
def test_the_input_is_taken_byte_by_byte(model, tmp_path):
    file = tmp_path / "text.txt"
    file.write_bytes(TEXT.encode())
    ids = ids_of(*model, "--file", file)
    assert ids_of(*model, "--file", "-", stdin=TEXT) == ids
    assert ids_of(*model, f"--text={TEXT}") == ids
    assert tokenize(*model, "--decode", "--file", "-", stdin=str(ids)).stdout.decode() == TEXT + "\n"
    done = tokenize(*model, "--check", "--file", file)
    assert done.returncode == 0 and done.stdout.decode() == f"equal: {len(ids)} tokens, {len(TEXT.encode())} bytes\n"


def test_pieces_are_one_line_for_each_token():
    ids = ids_of("--file", "-", stdin=TEXT)
    lines = tokenize("--file", "-", "--pieces", stdin=TEXT).stdout.decode().split("\n")
    assert lines.pop() == ""
    numbers, pieces = zip(*(line.split("\t") for line in lines))
    assert list(map(int, numbers)) == ids
    assert pieces[0] == "你好" and "\\t" in pieces and "\\\\" in "".join(pieces)
    raw = "".join(pieces).encode().decode("unicode_escape").encode("latin-1")  # \xf0, \n, \\ back to bytes
    assert raw.decode() == TEXT
    assert tokenize("--decode", "--pieces", "--text", "15 2").stdout == b"15\t\\n\n2\t</s>\n"


def test_an_empty_file_has_no_tokens():
    assert ids_of("--file", "-", stdin="") == []
    assert tokenize("--file", "-", "--check", stdin="").stdout == b"equal: 0 tokens, 0 bytes\n"
    assert tokenize("--file", "-", "--pieces", stdin="").stdout == b""


def test_a_text_that_does_not_come_back():
    # U+2581 is how these tokenizers write a space, so it becomes one.
    done = tokenize("--text", "你a▁b", "--check")
    assert (done.returncode, done.stdout.decode()) == (1, "different from byte 4: '▁b' comes back as ' b'\n")
    done = tokenize("--text", "你a▁b", "--check", language="zh_CN.UTF-8")
    assert (done.returncode, done.stdout.decode()) == (1, "不同：从第 4 字节起，'▁b' 还原成了 ' b'\n")


@pytest.mark.parametrize("arguments, code, says", [
    ((), 2, "--text or --file"), (("--text", "a", "--file", "-"), 2, "--text or --file"),
    (("--text", "a", "--check", "--decode"), 2, "--check"), (("--text", "1", "--special", "--decode"), 2, "--special"),
    (("--txt", "a"), 2, "--text"), (("--text", "a", "--decode"), 1, "'a' is not a token id"),
    (("--text", "[99999]", "--decode"), 1, "99999"), (("--file", "/no/such/file"), 1, "/no/such/file"),
    (("/no/such/model", "--text", "a"), 1, "/no/such/model"), (("a", "b", "--text", "a"), 2, "'b'"),
    ((SOURCE / "tests/data/reference-models/qwen2", "--text", "a"), 1, "tokenizer")])
def test_faults(arguments, code, says):
    done = tokenize(*arguments)
    assert (done.returncode, done.stdout) == (code, b"")
    assert says in done.stderr.decode() and done.stderr.startswith(b"erne tokenize: ")


def test_bytes_that_are_no_text():
    done = subprocess.run([BINARY, "tokenize", "--file", "-"], input=b"ab\xff", capture_output=True, timeout=60)
    assert done.returncode == 1 and b"byte 2" in done.stderr and done.stdout == b""


def test_help_in_both_languages():
    assert "JSON array" in tokenize("--help").stdout.decode()
    assert "分词器" in tokenize("--help", language="zh_CN.UTF-8").stdout.decode()
