"""Runs the shell blocks of docs/tutorial.md, in order and for each terminal of the page, as a reader would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.steps import OF_MAKE

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"


def blocks(terminal: str) -> list[str]:
    """Return the page's shell blocks for that terminal, in order."""
    found = re.findall(rf'^```sh title="{terminal} terminal"\n(.*?)^```', PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"the tutorial has something for the {terminal.lower()} terminal"
    return found


def need_checkout() -> None:
    """Skip the test unless it runs in the checkout's .venv, which the page's commands use."""
    if Path(sys.prefix) != ROOT / ".venv":
        pytest.skip("run it by `make test`: with another environment the tutorial's make would first install .venv")


def checkout(folder: Path) -> Path:
    """Return a folder with links to all files of the checkout, so that a cluster of the checkout does not interfere."""
    for one in ROOT.iterdir():
        if one.name not in (".cluster", ".git"):
            (folder / one.name).symlink_to(one)
    return folder


def environment() -> dict[str, str]:
    """Return environment variables as a reader has them, without those of this test's make and Python.

    A variable lets the cluster end by itself if the test is killed.
    """
    own = {name: value for name, value in os.environ.items() if name not in {*OF_MAKE, "PYTHONPATH"}}
    return {**own, "CLUSTER_HOURS": "0.5"}


def run(script: str, folder: Path = ROOT) -> str:
    """Run a shell script in that folder and return its output; every command must succeed."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=folder, env=environment(), text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f"{script}\n{done.stdout}"
    return done.stdout
