"""`erne logits`: the door for comparing erne with any other implementation."""
import json
import subprocess

import pytest

from erne_server import BINARY, MINI, SOURCE

GREEDY = json.loads((MINI / "expected_greedy.json").read_text(encoding="utf-8"))["cases"]
MOE = SOURCE / "tests/data/reference-models/ernie4_5-moe-8x2"


def logits(*arguments):
    return subprocess.run([BINARY, "logits", *map(str, arguments)], capture_output=True, text=True, timeout=300)


# Every case on every executor is tests/golden's business; here the door itself is tried.
@pytest.mark.parametrize("executor, cases", [("reference", GREEDY[:1]), ("cpu", GREEDY)])
def test_greedy_ids_of_erne_mini(executor, cases):
    for case in cases:
        ids = ",".join(map(str, case["prompt_ids"]))
        done = logits(MINI, "--ids", ids, "--greedy", len(case["greedy_ids"]), "--executor", executor)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["greedy_ids"] == case["greedy_ids"], case["prompt"]


def test_shape_of_the_answer():
    answer = json.loads(logits(MOE, "--ids", "5,6,7").stdout)
    assert len(answer["logits"]) == 3 and {len(row) for row in answer["logits"]} == {320}
    assert answer["greedy_ids"] == []
    assert sorted(answer["experts"]) == ["1", "2", "3"]
    assert all(len(ids) == 2 and max(ids) < 8 for layer in answer["experts"].values() for ids in layer)


def test_type_of_keys_and_values():
    ids = ",".join(map(str, GREEDY[0]["prompt_ids"]))
    exact, same, int8 = (json.loads(logits(MINI, "--ids", ids, *flags).stdout)["logits"]
                         for flags in ((), ("--kv-cache-dtype", "float32"), ("--kv-cache-dtype", "int8")))
    assert exact == same != int8


def test_thousands_of_threads_change_nothing():
    few, many = (logits(MOE, "--ids", "5,6,7", "--threads", threads) for threads in (1, 4096))
    assert many.returncode == 0 and many.stdout == few.stdout
    assert "only take turns" in many.stderr


@pytest.mark.parametrize("arguments, says", [
    ((MOE, "--ids", "5", "--kv-cache-dtype", "fp8"), "int8"),
    ((MOE, "--ids", "5,320"), "320"), ((MOE, "--ids", ""), "ids"), ((MOE, "--ids", "5,x"), "x"), ((MOE,), "--ids"),
    ((MOE, "--ids", "5", "--executor", "tpu"), "tpu"), ((MOE, "--ids", "5", "--executor", "cuda"), "CUDA"),
    (("/no/such/folder", "--ids", "5"), "/no/such/folder"), ((MOE, "--ids", "5", "--greedy", "-1"), "greedy")])
def test_bad_arguments(arguments, says):
    done = logits(*arguments)
    assert done.returncode in (1, 2) and says in done.stderr and done.stdout == ""
