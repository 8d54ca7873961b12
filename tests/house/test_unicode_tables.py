"""The committed tables are what their generator writes."""
import pathlib
import subprocess
import sys
import unicodedata

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "src/base/unicode"


@pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="this Python has another version of Unicode")
def test_tables_are_as_generated(tmp_path):
    subprocess.run([sys.executable, FOLDER / "make_tables.py", tmp_path], check=True)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == ["case_tables.cc", "class_tables.cc", "normalization_tables.cc"]
    for name in written:
        assert (FOLDER / name).read_text() == (tmp_path / name).read_text(), name
