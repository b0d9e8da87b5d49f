"""Finds the newest part of a journal on disk that has no gap.

It consists of files of one policy, where each file begins in the state in which the one before it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from extender.state.record import Beginning, Step, beginning, journals, read

MOST_BYTES: Final = 16 * 1024 * 1024  # older files are read only up to this total size; the newest file is always read


@dataclass(frozen=True, slots=True)
class Recording:
    """A part of a journal without a gap: the state at its beginning, and its files, oldest first."""

    beginning: Beginning
    files: tuple[Path, ...]

    def steps(self) -> Iterator[Step]:
        """Yield every recorded step. Raises RecordError, OSError."""
        for file in self.files:
            yield from read(file)[1]


def newest_recording(folder: Path) -> Recording | None:
    """Return the part of the journal that ends with the newest file; None where there is no file yet.

    Raises RecordError, OSError.
    """
    files = journals(folder)
    if not files:
        return None
    begun, chosen, size = beginning(files[-1]), [files[-1]], 0
    for file in reversed(files[:-1]):
        size += file.stat().st_size
        if size > MOST_BYTES:
            break
        before = beginning(file)
        if before.policy != begun.policy or before.snapshot.generation + _steps(file) != begun.snapshot.generation:
            break
        begun, chosen = before, [file, *chosen]
    return Recording(begun, tuple(chosen))


def _steps(file: Path) -> int:
    """Return the number of steps in a file; each adds one to the generation, and the first line is the beginning."""
    with file.open("rb") as lines:
        return sum(1 for line in lines if line.endswith(b"\n")) - 1
