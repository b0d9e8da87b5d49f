"""The same program under one order of hashes and another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def printed(hash_seed: str, *arguments: str) -> str:
    """What Python prints, given these arguments, where sets of text have the order of that seed."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True).stdout
