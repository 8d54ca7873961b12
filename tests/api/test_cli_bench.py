"""`erne bench`: that it verifies, what it writes, and what it refuses. Not how fast anything is."""
import json
import subprocess

import pytest

from erne_server import BINARY, MINI, SOURCE

MODELS = SOURCE / "tests/data/reference-models"
DENSE, MOE, AWQ = (MODELS / name for name in ("ernie4_5-dense-bf16", "ernie4_5-moe-8x2", "ernie4_5-dense-awq"))


def bench(*arguments, **options):
    return subprocess.run([BINARY, "bench", *map(str, arguments)], capture_output=True, text=True, timeout=300, **options)


def report(tmp_path, *arguments):
    path = tmp_path / "report.json"
    done = bench(*arguments, "--json", path)
    assert done.returncode == 0, done.stderr
    assert "verified: " in done.stdout and "roof: " in done.stdout
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]
    return json.loads(path.read_text(encoding="utf-8"))


def check(answer, command, names):
    assert answer["command"] == command
    verified = answer["verified"]
    assert verified["max_error"] <= verified["max_error_allowed"] and verified["positions"] >= 1
    assert verified["max_error"] > 0 or verified["rerouted"] == verified["positions"]
    assert 0 <= verified["same_token"] <= verified["positions"]
    assert all(answer["roof"][figure] > 0 for figure in ("read_gb_s", "f32_gflop_s", "bf16_gflop_s", "int8_gop_s"))
    assert answer["executor"]["weight_bytes"] > 0 and answer["token"]["bytes"] > 0 and answer["token"]["operations"] > 0
    assert [result["name"] for result in answer["results"]] == names
    for result in answer["results"]:
        assert len(result["seconds"]) == answer["turns"] == answer["roof"]["turns"]
        assert all(result[figure] > 0 for figure in ("tokens_per_second", "read_share", "arithmetic_share", "roof_share"))
        assert result["roof_share"] <= result["sequential_roof_share"]


@pytest.mark.parametrize("model", [DENSE, MOE, AWQ, MINI], ids=lambda model: model.name)
def test_latency_of_models(tmp_path, model):
    answer = report(tmp_path, "latency", model, "--prefill", 32, 7, "--depth", 0, "40", "--tokens", 5, "--turns", 2)
    check(answer, "bench latency", ["prefill 32", "prefill 7", "decode 5 at depth 0", "decode 5 at depth 40"])
    assert answer["model"]["name"] == str(model)
    assert answer["peak_memory"]["loading_bytes"] > 0


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "int8", "int4", "awq"])
def test_random_weights(tmp_path, dtype):
    answer = report(tmp_path, "latency", "--shape", "ernie-4.5-0.3b:1", "--dtype", dtype, "--prefill", 8, "--depth", 0,
                    "--tokens", 2, "--turns", 1, "--verify", 2)
    check(answer, "bench latency", ["prefill 8", "decode 2 at depth 0"])
    assert answer["model"]["precision"].startswith("bf16" if dtype.startswith("int") else dtype)
    assert dtype in answer["executor"]["weights"]
    # Bytes of a token are those that the executor keeps; what pads its panels is little.
    assert 0.9 < answer["token"]["bytes"] / answer["executor"]["weight_bytes"] <= 1.01


@pytest.mark.parametrize("flags", [
    ("--activation-dtype", "f32"), ("--activation-dtype", "bf16"), ("--quantization", "int8", "--activation-dtype", "f32"),
    ("--quantization", "int8"), ("--quantization", "int4"), ("--head-dtype", "int8"),
    ("--quantization", "int4", "--head-dtype", "int8")], ids=" ".join)
def test_precision(tmp_path, flags):
    answer = report(tmp_path, "latency", "--shape", "ernie-0.3b-8x2:2", "--prefill", 4, "--depth", 0, "--tokens", 1,
                    "--turns", 1, "--verify", 3, *flags)
    check(answer, "bench latency", ["prefill 4", "decode 1 at depth 0"])
    # Where activations are rounded, routers tip, and the layers up to the first experts are verified by themselves.
    assert ("verified_first_experts" in answer) == (answer["executor"]["activations"] != "f32")


def test_throughput(tmp_path):
    answer = report(tmp_path, "throughput", MOE, "--sequences", "1,3", "--prompt", 20, "--tokens", 4, "--turns", 1,
                    "--max-num-batched-tokens", 16, "--kv-cache-dtype", "int8", "--threads", 1, "--isa", "scalar")
    check(answer, "bench throughput", ["prefill 20", "decode 4 at depth 20", "prefill 3 x 20", "decode 3 x 4 at depth 20"])
    assert "scalar" in answer["executor"]["name"] and answer["executor"]["keys_and_values"].startswith("int8")
    assert answer["roof"]["threads"] == 1


@pytest.mark.parametrize("model, stages", [
    (DENSE, ["q, k, v", "attention", "o", "gate, up", "down", "head", "the rest"]),
    (MOE, ["q, k, v", "attention", "o", "router", "gate, up", "down", "head", "the rest"])], ids=["dense", "moe"])
def test_kernels(tmp_path, model, stages):
    answer = report(tmp_path, "kernels", model, "--rows", "1,70", "--depth", 30, "--turns", 2, "--steps", 2)
    assert answer["command"] == "bench kernels" and answer["verified"]["positions"] == 8
    names = [f"{stage}, 1 row" for stage in stages] + [f"{stage}, {64 if stage == 'head' else 70} rows" for stage in stages]
    assert [result["name"] for result in answer["results"]] == [*names, "attention, 1 row at depth 30"]
    for result in answer["results"]:
        assert len(result["seconds"]) == 2 and min(result["seconds"]) > 0
        assert (result["bytes"] > 0) == (result["operations"] > 0) == ("the rest" not in result["name"])


def test_serve(tmp_path):
    answer = report(tmp_path, "serve", "erne-mini", "--concurrency", 1, 3, "--requests", 2, "--prompt", 16, "--tokens", 6,
                    "--turns", 2, "--temperature", 0.8, "--top-p", 0.9)
    check(answer, "bench serve", ["1 client", "3 clients"])
    assert [level["clients"] for level in answer["clients"]] == [1, 3]
    for level in answer["clients"]:
        assert 0 < level["first_token_p50_ms"] <= level["first_token_p95_ms"]
        assert 0 <= level["gap_p50_ms"] <= level["gap_p95_ms"] <= level["gap_p99_ms"]


def test_serve_random_weights(tmp_path):
    answer = report(tmp_path, "serve", "--shape", "ernie-4.5-0.3b:1", "--concurrency", 2, "--requests", 1, "--prompt", 8,
                    "--tokens", 4, "--turns", 1, "--verify", 1)
    check(answer, "bench serve", ["2 clients"])


def test_the_embedded_model():
    assert bench("latency", "erne-mini", "--prefill", 4, "--depth", 0, "--tokens", 1, "--turns", 1).returncode == 0


@pytest.mark.parametrize("language, says", [("C", "Benchmarks:"), ("zh_CN.UTF-8", "测试：")])
def test_help(language, says):
    assert says in bench("--help", env={"LC_ALL": language}).stdout
    for name in ("kernels", "latency", "throughput", "serve"):
        done = bench(name, "--help", env={"LC_ALL": language})
        assert done.returncode == 0 and "--json" in done.stdout


@pytest.mark.parametrize("arguments, says", [
    (("speed",), "there is no benchmark 'speed'"),
    (("latency", "/no/such/folder"), "/no/such/folder"),
    (("latency", "--shape", "gpt-2"), "there is no shape 'gpt-2'"),
    (("latency", "--shape", "ernie-4.5-0.3b:19"), "has 1 to 18"),
    (("latency", DENSE, "--shape", "ernie-4.5-0.3b"), "--shape is for random weights"),
    (("latency", DENSE, "--dtype", "awq"), "--dtype is for random weights"),
    (("latency", "--dtype", "fp4"), "fp4"),
    (("latency", "--dtype", "int8", "--quantization", "int4"), "--dtype int8 rounds the weights already"),
    (("latency", DENSE, "--prefill", "0"), "--prefill: '0'"),
    (("latency", DENSE, "--depth", "-1"), "--depth"),
    (("latency", DENSE, "--prefill", "5x"), "--prefill: '5x'"),
    (("latency", DENSE, "--prefill", "513"), "was made for 512"),
    (("latency", DENSE, "--depth", "0", "--isa", "sse9"), "sse9"),
    (("latency", DENSE, "--kv-cache-dtype", "fp8"), "int8"),
    (("latency", DENSE, "--turns", "0"), "--turns"),
    (("throughput", DENSE, "--sequences", "0"), "--sequences: '0'"),
    (("kernels", DENSE, "--rows", "0"), "--rows: '0'"), (("kernels", DENSE, "--depth", "512"), "was made for 512"),
    (("serve", DENSE, "--concurrency", "0"), "--concurrency: '0'"),
    (("serve", DENSE, "--prompt", "500"), "was made for 512"),
    (("latency", DENSE, "--json", "/no/such/folder/report.json"), "--json: /no/such/folder/report.json"),
    (("latency", DENSE, "--json", "/"), "--json: /")])
def test_bad_arguments(arguments, says):
    done = bench(*arguments)
    assert done.returncode in (1, 2) and says in done.stderr and done.stdout == ""


def test_a_failed_run_leaves_no_file(tmp_path):
    done = bench("latency", DENSE, "--depth", "0", "--isa", "sse9", "--json", tmp_path / "report.json")
    assert done.returncode != 0 and list(tmp_path.iterdir()) == []
