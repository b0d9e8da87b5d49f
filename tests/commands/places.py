"""Where the commands keep their records: the folder .gate of the checkout, which git ignores."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).parents[2]
FOLDER: Final = CHECKOUT / ".gate"
RUNS: Final = FOLDER / "runs.jsonl"
RETRIES: Final = FOLDER / "retries.jsonl"
LOCK: Final = FOLDER / "lock"
FULL: Final = FOLDER / "full"


def head() -> str:
    """Return the id of the checked-out commit, or "none" outside a git repository."""
    return _git("rev-parse", "HEAD").strip() or "none"


def tree_key() -> str:
    """Return a short name of the checked-out state: the commit, and a hash of the uncommitted changes."""
    changed = _git("diff", "HEAD", "--binary")
    for name in sorted(_git("ls-files", "--others", "--exclude-standard").splitlines()):
        changed += f"{name}\0{hashlib.sha256((CHECKOUT / name).read_bytes()).hexdigest()}\0"
    commit = head()[:12]
    return f"{commit}-{hashlib.sha256(changed.encode()).hexdigest()[:8]}" if changed else commit


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(CHECKOUT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False).stdout
