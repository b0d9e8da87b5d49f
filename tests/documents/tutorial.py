"""docs/tutorial.md as a reader types it: the shell blocks of each terminal, in their order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
OF_MAKE = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHONPATH")


def blocks(terminal: str) -> list[str]:
    """The shell blocks that the page gives that terminal."""
    found = re.findall(rf'^```sh title="{terminal} terminal"\n(.*?)^```', PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"the tutorial has something for the {terminal.lower()} terminal"
    return found


def need_checkout() -> None:
    """The page's `make` sets .venv up; a test must find that done, as `make test` and CI do it."""
    if Path(sys.prefix) != ROOT / ".venv":
        pytest.skip("run it by `make test`: with another environment the tutorial's make would first install .venv")


def checkout(folder: Path) -> Path:
    """A checkout beside this one, of the same files: a cluster that is up in this one is not in the way."""
    for one in ROOT.iterdir():
        if one.name not in (".cluster", ".git"):
            (folder / one.name).symlink_to(one)
    return folder


def environment() -> dict[str, str]:
    """A reader's: nothing of the make and of the Python that run this test."""
    return {name: value for name, value in os.environ.items() if name not in OF_MAKE}


def run(script: str, folder: Path = ROOT) -> str:
    """Run a whole script in that checkout; every command must succeed. Returns what it prints."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=folder, env=environment(), text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f"{script}\n{done.stdout}"
    return done.stdout
