"""Where built binaries are kept between runs, and the lock that keeps two builds apart."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_directory() -> Path:
    """Return the kit's folder in the user's cache: $KOHORT_CACHE, else $XDG_CACHE_HOME/kohort, else ~/.cache/kohort."""
    if chosen := os.environ.get("KOHORT_CACHE"):
        root = Path(chosen)
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kohort"
    directory = root / "controlplane"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@contextmanager
def locked(path: Path, waiting: str) -> Iterator[None]:
    """Hold an exclusive lock on ``path``, printing ``waiting`` first when somebody else holds it.

    The kernel gives the lock up when its holder dies, so a killed build leaves nothing to clean.
    """
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(waiting, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
