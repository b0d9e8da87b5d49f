"""Finished rows in an append-only file of JSON lines, so that an interrupted study can continue.

A row is valid only for the code that made it: after a change in ``policy``, ``extender`` or ``lab``, every case runs
again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TextIO

import extender
import lab
import policy
from lab.study.studyerrors import StudyError

Row = dict[str, Any]


@cache
def code_version() -> str:
    """Return a hash of the sources of the policies, of the service, which pod-level runs contain, and of the lab."""
    sources: list[tuple[str, Path]] = []
    for package in (policy, extender, lab):
        root = Path(next(iter(package.__path__)))
        paths = sorted(root.rglob("*.py"))
        sources += [(f"{package.__name__}/{path.relative_to(root).as_posix()}", path) for path in paths]
    return hash_of(sources)


def hash_of(files: Iterable[tuple[str, Path]]) -> str:
    """Return a hash of the names and contents of files, given as (name, path). Raises OSError."""
    found = hashlib.sha256()
    for name, path in files:
        inside = path.read_bytes()
        found.update(f"{name}\0{len(inside)}\0".encode())
        found.update(inside)
    return found.hexdigest()[:16]


class DoneRows:
    """The rows that were finished by this version of the code, by the key of their case.

    path: the file that keeps them; None keeps them in memory only.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._code = code_version()
        self._rows: dict[str, Row] = {}
        self._file: TextIO | None = None
        if path is not None:
            self._rows = {key: row for key, code, row in _read(path) if code == self._code}
            self._file = _open(path)

    def get(self, key: str) -> Row | None:
        """Return the row of that case, or None if the case is not done."""
        return self._rows.get(key)

    def add(self, key: str, row: Row) -> None:
        """Keep the row of that case; it is written to the file before this returns."""
        self._rows[key] = row
        if self._file is not None:
            self._file.write(json.dumps({"case": key, "code": self._code, "row": row}) + "\n")
            self._file.flush()

    def close(self) -> None:
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
        file.write("\n")  # The last line is incomplete, because the run that wrote it was killed.
    return file


def _read(path: Path) -> Iterator[tuple[str, str, Row]]:
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
            yield entry["case"], entry["code"], entry["row"]
        except (ValueError, KeyError, TypeError):
            continue  # An incomplete line is skipped, so its case runs again.
