"""The cache of built binaries, checks that they are complete, and the lock against simultaneous builds."""

from __future__ import annotations

import fcntl
import json
import os
import struct
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


def is_program(path: Path) -> bool:
    """Tell whether the file is as long as its ELF header says; a full disk or a crash may have cut it."""
    try:
        with path.open("rb") as file:
            head = file.read(64)
            if head[:5] != b"\x7fELF\x02":
                return False
            segments, sections = struct.unpack_from("<QQ", head, 32)
            each, count, of_sections, their_count = struct.unpack_from("<HHHH", head, 54)
            file.seek(segments)
            table = file.read(each * count)
        ends = [sum(struct.unpack_from("<Q", table, at + field)[0] for field in (8, 32))
                for at in range(0, each * count, each)]  # fmt: skip
        return bool(path.stat().st_size >= max(*ends, sections + of_sections * their_count))
    except (OSError, struct.error):
        return False


def is_json(path: Path) -> bool:
    """Tell whether the file exists and is valid JSON."""
    try:
        json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return True


@contextmanager
def locked(path: Path, waiting: str) -> Iterator[None]:
    """Hold an exclusive lock on ``path``; print ``waiting`` first if another process holds it.

    The kernel releases the lock when its holder dies, so a killed build leaves nothing to clean up.
    """
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(waiting, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
