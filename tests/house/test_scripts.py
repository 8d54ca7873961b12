"""scripts/lib.sh and scripts/tidy."""
import fcntl
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIDY = ROOT / "scripts/tidy"


def start(script, folder):
    command = ["bash", "-c", f". scripts/lib.sh; {script}", "lib.sh", folder]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_one_build_at_a_time_in_a_folder(tmp_path):
    folder = tmp_path / "build/release"
    folder.parent.mkdir()
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = start('with_lock "$1" echo built', folder)
        assert f"waiting for another build in {folder}" in waiting.stderr.readline()
        assert waiting.poll() is None
        elsewhere = start('with_lock "$1" echo built', tmp_path / "build/asan")
        assert elsewhere.communicate() == ("built\n", "")
    assert waiting.communicate() == ("built\n", "")
    assert waiting.returncode == 0


def test_the_lock_keeps_the_exit_code_and_ends_with_the_command(tmp_path):
    folder = tmp_path / "release"
    done = start('with_lock "$1" bash -c "exit 3" || echo "code $?"; with_lock "$1" echo again', folder)
    assert done.communicate() == ("code 3\nagain\n", "")


def tidy(*arguments, path=None):
    environment = {**os.environ, **({"PATH": str(path)} if path else {})}
    return subprocess.run([TIDY, *arguments], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("name, reason", [("no/such.cc", "no such file"), ("README.md", "is not below src, tests, bench"),
                                          ("src/base/CMakeLists.txt", "is no .cc, .h or .inc")])
def test_tidy_refuses_what_it_cannot_check(tmp_path, name, reason):
    stand_in(tmp_path, "exit 1")
    done = tidy(ROOT / name, path=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 1
    assert done.stderr == f"tidy: {ROOT / name}: {reason}\n"


def stand_in(folder, script):
    """A clang-tidy-19 that runs `script`."""
    tool = folder / "clang-tidy-19"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)


def test_tidy_without_clang_tidy_says_skipped(tmp_path):
    (tmp_path / "python3").symlink_to(sys.executable)
    done = tidy("src/base/status.h", path=tmp_path)
    assert done.returncode == 77
    assert "skipped: clang-tidy-19 is not installed" in done.stdout


def test_tidy_prints_each_finding_once_and_counts(tmp_path):
    stand_in(tmp_path, f'echo "{ROOT}/src/base/utf8.h:1:2: error: bad [check]"; echo "    1 | text"; exit 1')
    done = tidy(ROOT / "src/base/utf8.cc", ROOT / "src/base/utf8_test.cc", path=f"{tmp_path}:{os.environ['PATH']}")
    finding, quoted, count = done.stdout.splitlines()
    assert (finding, quoted) == ("src/base/utf8.h:1:2: error: bad [check]", "    1 | text")
    assert count.startswith("tidy: 2 files, 1 findings")
    assert done.returncode == 1


def test_tidy_fails_when_clang_tidy_does(tmp_path):
    stand_in(tmp_path, "echo crashed >&2; exit 139")
    done = tidy(ROOT / "src/base/utf8.cc", path=f"{tmp_path}:{os.environ['PATH']}")
    assert "src/base/utf8.cc: clang-tidy-19 failed (139)\ncrashed" in done.stdout
    assert done.returncode == 1


def test_tidy_checks_a_fragment_through_the_sources_that_include_it(tmp_path):
    stand_in(tmp_path, 'for last; do :; done; echo "$last:1:1: error: seen [check]"')
    done = tidy(ROOT / "src/executor/cpu/gemm.inc", path=f"{tmp_path}:{os.environ['PATH']}")
    seen = {line.split(":")[0] for line in done.stdout.splitlines()[:-1]}
    assert seen == {f"src/executor/cpu/kernels_{kind}.cc" for kind in ("amx", "avx2", "avx512", "avx512_bf16", "avx512_vnni", "scalar")}
