"""The rows that are done, in a file of JSON lines that is only ever appended to: a study goes on where it stopped.

A row counts only for the code that made it: a change in ``policy``, ``lab.sim`` or ``lab.study`` makes every case run
again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TextIO

import lab.sim
import lab.study
import policy
from lab.study.errors import StudyError

Row = dict[str, Any]


@cache
def code_version() -> str:
    """A name for the simulator, the policies and the studies as they are now: the hash of their sources."""
    sources: list[tuple[str, Path]] = []
    for package in (policy, lab.sim, lab.study):
        root = Path(next(iter(package.__path__)))
        paths = sorted(root.rglob("*.py"))
        sources += [(f"{package.__name__}/{path.relative_to(root).as_posix()}", path) for path in paths]
    return hash_of(sources)


def hash_of(files: Iterable[tuple[str, Path]]) -> str:
    """Of what stands in these files, each with its name. Raises OSError."""
    found = hashlib.sha256()
    for name, path in files:
        inside = path.read_bytes()
        found.update(f"{name}\0{len(inside)}\0".encode())
        found.update(inside)
    return found.hexdigest()[:16]


class DoneRows:
    """Rows by their case's key; of this code only. Without a file they are only kept in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._code = code_version()
        self._rows: dict[str, Row] = {}
        self._file: TextIO | None = None
        if path is not None:
            self._rows = {key: row for key, code, row in _read(path) if code == self._code}
            self._file = _open(path)

    def get(self, key: str) -> Row | None:
        """The row of that case, where it is done."""
        return self._rows.get(key)

    def add(self, key: str, row: Row) -> None:
        """Keep the row; it is in the file when this returns."""
        self._rows[key] = row
        if self._file is not None:
            self._file.write(json.dumps({"case": key, "code": self._code, "row": row}) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _open(path: Path) -> TextIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torn = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}; name a folder that can be written") from None
    if torn:
        file.write("\n")  # what was being written when the last run was ended
    return file


def _read(path: Path) -> Iterator[tuple[str, str, Row]]:
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
            yield entry["case"], entry["code"], entry["row"]
        except (ValueError, KeyError, TypeError):
            continue  # torn by the end of an earlier run: that case runs again
