"""`erne inspect`: what the real program tells about a model."""
import json
import os
import pathlib
import subprocess

import pytest

from erne_server import BINARY, MINI, SOURCE, Server

REFERENCE = SOURCE / "tests/data/reference-models"


def inspect(*arguments, language="C.UTF-8"):
    environment = {**os.environ, "LC_ALL": language}
    return subprocess.run([BINARY, "inspect", *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          env=environment)


def report(*arguments):
    done = inspect(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def stored_tensors(folder):
    """Name -> (dtype, shape, bytes) out of the files' own headers."""
    tensors = {}
    for file in pathlib.Path(folder).glob("*.safetensors"):
        data = file.read_bytes()
        header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                tensors[name] = (entry["dtype"], entry["shape"], end - begin)
    return tensors


@pytest.mark.parametrize("folder", sorted(path.name for path in REFERENCE.iterdir()))
def test_reference_models(folder):
    config = json.loads((REFERENCE / folder / "config.json").read_text())
    got = report(REFERENCE / folder, "--tensors")
    assert got["name"] == folder and got["path"] == str(REFERENCE / folder)
    assert got["architecture"] == config["model_type"]
    assert got["layers"] == config["num_hidden_layers"] == got["dense_layers"] + got["moe"]["layers"]
    assert got["hidden"] == config["hidden_size"] and got["vocab_size"] == config["vocab_size"]
    assert got["attention"]["heads"] == config["num_attention_heads"]
    assert got["attention"]["kv_heads"] == config["num_key_value_heads"]
    experts = next((config[key] for key in ("moe_num_experts", "num_experts", "num_local_experts") if key in config), 0)
    assert got["moe"]["experts"] == experts
    assert got["context"] == config["max_position_embeddings"]
    stored = stored_tensors(REFERENCE / folder)
    assert {t["name"]: (t["dtype"], t["shape"], t["bytes"]) for t in got["tensors"]["list"]} == stored
    assert got["tensors"]["count"] == len(stored)
    assert got["tensors"]["bytes"] == sum(bytes for _, _, bytes in stored.values())
    assert sum(t["bytes"] for t in got["tensors"]["by_dtype"].values()) == got["tensors"]["bytes"]
    assert got["memory_plan"]["fits"] is True


def test_the_embedded_model_is_the_one_in_the_tree():
    embedded, folder = report(), report(MINI)
    assert embedded["path"] == "embedded:erne-mini"
    for field in ("parameters", "active_parameters", "tensors", "precision", "executor", "attention", "moe"):
        assert embedded[field] == folder[field]
    assert embedded["name"] == folder["name"] == "erne-mini"


def test_the_plan_is_the_one_that_serve_takes():
    flags = ("--max-num-seqs", 3, "--max-model-len", 500)
    plan = report(*flags)["memory_plan"]
    assert plan["kv_blocks"] == 3 * 32 and plan["max_context"] == 500
    with Server(*flags) as server:
        log = server.read_log()
    kv = f"KV cache {plan['kv_bytes'] / 2**20:.1f} MiB ({report()['executor']['kv']}, {plan['kv_blocks'] * 16} tokens; one request up to 500)"
    assert kv in log
    assert f"weights {report()['executor']['weights']}, activations {report()['executor']['activations']}" in log


def test_the_type_of_keys_and_values():
    assert report()["executor"]["kv"] in ("f16", "bf16")  # bf16 where the CPU multiplies it
    assert report(REFERENCE / "llama-gqa")["executor"]["kv"] == "f32"  # as its checkpoint
    bytes_of = {kind: report("--kv-cache-dtype", kind)["memory_plan"]["kv_bytes"]
                for kind in ("float32", "bfloat16", "half", "int8")}
    # A position and kv head of erne-mini: 2 x 64 elements, and two scales.
    assert bytes_of["float32"] == 2 * bytes_of["bfloat16"] == 2 * bytes_of["half"]
    assert bytes_of["int8"] * 4 * 128 == bytes_of["float32"] * (128 + 8)
    done = inspect("--kv-cache-dtype", "fp8_e4m3")
    assert done.returncode == 2 and "fp8_e4m3" in done.stderr and "int8" in done.stderr


def test_the_types_that_would_run():
    model = REFERENCE / "ernie4_5-dense-bf16"
    runs = report(model, "--quantization", "int8", "--head-dtype", "int4", "--activation-dtype", "int8")["executor"]
    assert runs["weights"].endswith("as int8, head as int4") and runs["activations"] == "int8" and runs["note"] == ""
    assert report(model, "--activation-dtype", "int8")["executor"]["note"].startswith("--activation-dtype int8 changes nothing")
    done = inspect("--quantization", "int8")  # of a model that is stored in 4 bits
    assert done.returncode == 1 and "in the format awq" in done.stderr


def test_threads_are_pinned_on_request():
    # Two threads compute, the loop's and one more; each may use one CPU then. All others may use all of them.
    with Server("--threads", 2, "--pin-threads") as server:
        server.chat("hi", max_tokens=1)
        masks = [line.split()[1] for status in pathlib.Path(f"/proc/{server.process.pid}/task").glob("*/status")
                 for line in status.read_text().splitlines() if line.startswith("Cpus_allowed_list")]
    own = [line.split()[1] for line in pathlib.Path("/proc/self/status").read_text().splitlines()
           if line.startswith("Cpus_allowed_list")]
    bound = [mask for mask in masks if mask.isdigit() and [mask] != own]
    assert len(bound) == (0 if own[0].isdigit() else min(2, len(os.sched_getaffinity(0))))


def test_the_context_fits_the_memory(tmp_path):
    """A model that claims 2^31 positions starts, with a context that there is memory for, and says so."""
    for file in (REFERENCE / "llama-gqa").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config["max_position_embeddings"] = 2**31
    (tmp_path / "config.json").write_text(json.dumps(config))
    plan = report(tmp_path)["memory_plan"]
    assert plan["fits"] and plan["max_context"] <= 131072 and "2147483648" in plan["note"]
    plan = report(tmp_path, "--max-model-len", "1G")["memory_plan"]
    assert plan["fits"] and 131072 < plan["max_context"] < 2**30 and "from 1073741824 to" in plan["note"]
    plan = report(tmp_path, "--kv-cache-memory", "2MiB")["memory_plan"]
    assert 2**20 < plan["kv_bytes"] <= 2**21 and "the KV cache does not hold more" in plan["note"]


def test_what_does_not_fit_is_told_and_no_failure():
    done = inspect("--gpu-memory-utilization", "0.01", "--max-num-seqs", "4096", "--max-num-batched-tokens", "1M")
    assert done.returncode == 0 and "does not fit" in done.stdout and "not enough memory" in done.stdout


def test_both_languages():
    english = inspect(REFERENCE / "llama-gqa").stdout
    assert "dense, 0 experts" in english and "tokens" in english
    chinese = inspect(REFERENCE / "llama-gqa", language="zh_CN.UTF-8").stdout
    assert "稠密模型，0 个专家" in chinese and len(chinese.splitlines()) == len(english.splitlines())
    assert "不给 MODEL" in inspect("--help", language="zh_CN.UTF-8").stdout


def test_tensor_names_cannot_talk_to_the_terminal(tmp_path):
    source = REFERENCE / "llama3-rope-scaling"  # its head is tied, so that lm_head.* may be skipped
    data = (source / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    end = len(data) - 8 - size
    header["lm_head.\u001b[2J\n"] = {"dtype": "F32", "shape": [1], "data_offsets": [end, end + 4]}
    text = json.dumps(header).encode()
    (tmp_path / "config.json").write_text((source / "config.json").read_text())
    (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size:] + bytes(4))
    done = inspect(tmp_path, "--tensors")
    assert done.returncode == 0, done.stderr
    assert "\n  lm_head.\\x1b[2J\\n " in done.stdout and "\x1b" not in done.stdout


@pytest.mark.parametrize("arguments, code, says", [
    (("/no/such/model",), 1, "/no/such/model"), ((MINI / "config.json",), 1, "is a file"),
    ((SOURCE / "src",), 1, "config.json"), (("--max-model-len", "99999"), 1, "2048"),
    (("--tensor",), 2, "--tensors"), (("a", "b"), 2, "'b'")])
def test_faults(arguments, code, says):
    done = inspect(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr and done.stderr.startswith("erne inspect: ")
