"""Python packages that are too large for the tests' own environment: in environments of their own, made once."""
import shutil
import subprocess
import sys

import pytest

from erne_server import SOURCE


def bin_with(name):
    """The programs of an environment with what tests/requirements-NAME.txt lists."""
    requirements, folder = SOURCE / f"tests/requirements-{name}.txt", SOURCE / f".cache/{name}-venv"
    wanted, made = requirements.read_text(), folder / "requirements.txt"
    if not made.exists() or made.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        done = subprocess.run([folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements],
                              capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"{name} cannot be installed here: {done.stderr.strip()[-300:]}")
        made.write_text(wanted)
    return folder / "bin"
