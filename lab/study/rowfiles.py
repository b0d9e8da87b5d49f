"""Read the rows of CSV and JSON files, also compressed with gzip; each row keeps its location for error messages."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, Final

from lab.sim.traces.reading import ColumnError, FieldError, Table, TraceError, TraceRow, numbered
from lab.sim.traces.reading import read as read_lines
from lab.study.studyerrors import StudyError, refuse

GZIP: Final = b"\x1f\x8b"  # A gzip file is recognised by these first bytes, whatever its name is.
MORE: Final = "values beyond the last column"
KEYS: Final = ("nodes", "jobs", "slot_seconds")  # A JSON file of a trace may have these keys.


def table(path: Path) -> Table:
    """Return the rows of a CSV or JSON file. Raises StudyError, also for a file without rows."""
    text = text_of(path)
    rows = _json_rows(path, text) if is_json(path, text) else _csv_rows(path, text)
    if not rows:
        raise StudyError(f"{path}: the file has no row; allowed: one row or more")
    return rows


def text_of(path: Path) -> str:
    """Return the text of a file, decompressed if it is a gzip file. Raises StudyError."""
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if data.startswith(GZIP) else data
        text = data.decode("utf-8-sig")
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise StudyError(f"{path}: its gzip data is cut off or damaged; give a whole file") from None
    except UnicodeDecodeError as error:
        why = f"it is not UTF-8 text (byte {error.start + 1})"
        raise StudyError(f"{path}: {why}; give a CSV or JSON file, saved as UTF-8") from None
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror or error}; give a file that can be read") from None
    if "\0" in text:
        raise StudyError(f"{path}: it has zero bytes and is not text; give a CSV or JSON file, saved as UTF-8")
    return text


def is_json(path: Path, text: str) -> bool:
    """Tell whether a file with this text is read as JSON: its name says so, or it begins with a bracket."""
    return path.name.removesuffix(".gz").endswith(".json") or text.lstrip()[:1] in ("[", "{")


def parsed(path: Path, text: str) -> Any:
    """Return the JSON value in the text. Raises StudyError, also for a repeated key."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise StudyError(f"{path}: its brackets are nested too deeply; give a file that can be read") from None
    except ValueError as error:
        raise StudyError(f"{path}: not JSON: {error}; give a file that can be read") from None


def objects(path: Path, found: object, name: str = "") -> Table:
    """Return the items of a list in a JSON file as rows. Raises StudyError if it is not a list of objects.

    name: the key of the list in the file; empty if the file is the list.
    """
    where = f"{path.name}: {name}" if name else path.name
    if not isinstance(found, list):
        raise refuse(f"{path.parent / where}", found, 'a list of objects, or {"nodes": [...], "jobs": [...]}')
    rows = numbered(found, where)
    if other := next(((place, row) for place, row in rows if not isinstance(row, dict)), None):
        raise refuse(f"{path.parent / other[0]}", other[1], "an object: {COLUMN: VALUE, ...}")
    return rows


def lines(error: TraceError) -> str:
    """Return the error's text in the form that follows a file name: a text of several lines begins on a new line."""
    text = str(error)
    return f"\n{text}" if "\n" in text else text


def _csv_rows(path: Path, text: str) -> Table:
    try:
        # Documentation often lists columns with a space after each comma, and people copy that list.
        reader = csv.DictReader(StringIO(text, newline=""), restkey=MORE, strict=True, skipinitialspace=True)
        _check_header(path, reader.fieldnames)
        return read_lines([(f"{path.name}, line {reader.line_num}", row) for row in reader], _whole)
    except TraceError as error:
        raise StudyError(f"{path}: {lines(error)}; see docs/simulator.md") from None
    except csv.Error as error:
        raise StudyError(f"{path}: not CSV: {error}; give a file that can be read") from None


def _check_header(path: Path, columns: Sequence[str] | None) -> None:
    """Raise TraceError if the header is empty, or repeats a column, of which only one would be read.

    columns: None for an empty file.
    """
    if columns is None:
        return
    if not any(columns):
        raise TraceError([str(FieldError(f"{path.name}, line 1", "header", ",".join(columns), "names of columns"))])
    if twice := [name for index, name in enumerate(columns) if name in columns[:index]]:
        raise TraceError(
            [str(FieldError(f"{path.name}, line 1", "header", name, "each column once")) for name in twice]
        )


def _whole(line: TraceRow) -> tuple[str, Mapping[str, object]]:
    """Return the row's location and values. Raises ColumnError unless it has a value for each column."""
    more = line.values.get(MORE)
    columns = len(line.values.keys() - {MORE})
    count = columns + (len(more) if isinstance(more, list) else 0) - list(line.values.values()).count(None)
    if count != columns:
        number = f"{count} value{'s are' if count != 1 else ' is'}"
        fault = f"{number} not allowed; allowed: {columns}, as many as the header has columns"
        raise ColumnError(line.where, {fault: ""})
    return line.where, line.values


def _json_rows(path: Path, text: str) -> Table:
    inside = parsed(path, text)
    if not isinstance(inside, dict) or "jobs" not in inside:
        return objects(path, inside)
    if other := sorted(inside.keys() - KEYS):
        raise refuse(f"{path}: key", other[0], ", ".join(KEYS))
    return objects(path, inside["jobs"])


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict. Raises ValueError for a repeated key, because only its last value would count."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"a key is repeated in one object: {next(n for n in names if names.count(n) > 1)!r}")
    return found
