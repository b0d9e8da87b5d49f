"""A run of pytest in processes of its own, of a few tests in a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.commands.places import CHECKOUT

PLUGINS = ("xdist.plugin", "pytest_rerunfailures")  # to load every installed plugin takes two thirds of such a run


def pytest_output(folder: Path, *arguments: str, **environment: str) -> str:
    """Return what pytest prints about the tests in the folder, which may import this checkout."""
    plugins = (part for name in PLUGINS for part in ("-p", name))
    command = [sys.executable, "-m", "pytest", *plugins, "--rootdir", ".", "-c", os.devnull, *arguments]
    given = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(CHECKOUT), **environment}
    done = subprocess.run(command, cwd=folder, env={**os.environ, **given}, capture_output=True, text=True, check=False)
    return done.stdout
