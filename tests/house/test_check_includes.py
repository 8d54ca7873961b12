"""The script that holds the direction of the house: it passes on the tree, and it can fail."""
import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = SOURCE / "scripts/check-includes"


def check(root):
    return subprocess.run([SCRIPT, root], capture_output=True, text=True)


def make_tree(root, files):
    for name, text in files.items():
        path = root / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_the_tree_is_clean():
    done = check(SOURCE)
    assert done.returncode == 0, done.stdout


def test_a_forbidden_arrow_a_library_in_the_core_and_a_long_file_are_named(tmp_path):
    make_tree(tmp_path, {
        "base/a.h": '#pragma once\n#include <vector>\n',
        "engine/scheduler.h": '#include "base/a.h"\n#include "api/service.h"\n',
        "model/b.cc": '#include <sys/mman.h>\n#include <boost/json.hpp>\n',
        "base/e.cc": '#include <curl/curl.h>\n',
        "executor/cpu/c.cc": '#include "executor/reference/d.h"\n',
        "kv/long.cc": "\n" * 801,
    })
    done = check(tmp_path)
    assert done.returncode == 1
    for breach in ("src/engine/scheduler.h:2: engine must not use api", "src/base/e.cc:1: base must not use <curl/curl.h>", "src/model/b.cc:2: model must not use <boost/json.hpp>",
                   "src/executor/cpu/c.cc:1: executor/cpu must not use executor/reference", "src/kv/long.cc:801: 801 lines"):
        assert breach in done.stdout, done.stdout
    assert "5 breaches" in done.stdout
