"""The newest stretch of a journal on disk that hangs together: files of one policy without a gap between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from extender.state.record import Beginning, Step, beginning, journals, read

MOST_BYTES: Final = 16 * 1024 * 1024  # of files before the newest one


@dataclass(frozen=True, slots=True)
class Tape:
    """What it begins with, and its files in order."""

    beginning: Beginning
    files: tuple[Path, ...]

    def steps(self) -> Iterator[Step]:
        """Every step. Raises RecordError, OSError."""
        for file in self.files:
            yield from read(file)[1]


def newest(folder: Path) -> Tape | None:
    """The tape that ends now; None where nothing is recorded yet. Raises RecordError, OSError."""
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
    return Tape(begun, tuple(chosen))


def _steps(file: Path) -> int:
    """Each makes the state one generation older; the first line is the beginning."""
    with file.open("rb") as lines:
        return sum(1 for line in lines if line.endswith(b"\n")) - 1
