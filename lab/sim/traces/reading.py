"""Read the rows of a trace, and report all faults in them at once: location, column, value and what is allowed.

Each row comes with a text for its location (``jobs.csv, line 7``), which the reader of the file provides.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from policy.cluster.words import and_more

T = TypeVar("T")
E = TypeVar("E", bound=Enum)
SHOWN = 200  # A message shows at most this many characters of a wrong value.
TOLD = 20  # An error message lists at most this many faults, and only counts the others.

Table = Sequence[tuple[str, Mapping[str, object]]]


class TraceError(ValueError):
    """A trace cannot be used; each of ``faults`` names file, line, field, value and what is allowed."""

    def __init__(self, faults: Sequence[str]) -> None:
        more = len(faults) - TOLD
        super().__init__("\n".join([*faults[:TOLD], *([and_more(more)] if more > 0 else [])]))
        self.faults = tuple(faults)


class FieldError(ValueError):
    """The error for one wrong field of a row."""

    def __init__(self, where: str, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{where}: {name}: {shortened(value)} is not allowed; allowed: {allowed}")


def shortened(value: object) -> str:
    """Return the value as Python text for a message, cut if it is long: it may be a whole file."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


class ColumnError(ValueError):
    """A row has wrong columns; ``faults`` maps each fault to its details.

    `read` reports a fault once for all rows that have it, because in a CSV file it is a fault of the header.
    """

    def __init__(self, where: str, faults: Mapping[str, str]) -> None:
        super().__init__("\n".join(f"{where}: {_with(fault, details)}" for fault, details in faults.items()))
        self.faults = faults


def numbered(rows: Iterable[Mapping[str, object]], name: str = "") -> Table:
    """Return rows from memory with the locations ``row 1``, ``row 2`` and so on."""
    return [(f"{name}, row {number}" if name else f"row {number}", row) for number, row in enumerate(rows, 1)]


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One row of the table; ``where`` is its location in words, ``position`` its number, from 1.

    Every method raises FieldError for a faulty value, and ColumnError for a missing column.
    """

    where: str
    values: Mapping[str, object]
    position: int = 1

    def has(self, name: str) -> bool:
        """Tell whether the column exists and is not empty."""
        return self.values.get(name) not in (None, "")

    def text(self, name: str) -> str:
        """Return the field's text, which must not be empty."""
        self.columns([name])
        if not self.has(name):
            raise FieldError(self.where, name, self.values[name], "a value")
        return str(self.values[name])

    def number(self, name: str, *, above: float | None = None, least: float = 0.0, most: float = math.inf) -> float:
        """Return a finite number: above ``above`` or else at least ``least``, and at most ``most``."""
        allowed = f"a number above {above:g}" if above is not None else f"a number of at least {least:g}"
        allowed += f" and at most {most:g}" if most < math.inf else ""
        found = _as(float, self.text(name))
        if found is None or not math.isfinite(found) or found > most:
            raise FieldError(self.where, name, self.values[name], allowed)
        if (found <= above) if above is not None else (found < least):
            raise FieldError(self.where, name, self.values[name], allowed)
        return found

    def count(self, name: str, *, least: int = 0, most: float = math.inf, bound: str = "") -> int:
        """Return a whole number from ``least`` to ``most``; ``bound`` is the column that ``least`` comes from."""
        found = _as(int, self.text(name))
        if found is None or not least <= found <= most:
            allowed = f"a whole number of at least {least}{f' ({bound})' if bound else ''}"
            allowed += f" and at most {most:.0f}" if most < math.inf else ""
            raise FieldError(self.where, name, self.values[name], allowed)
        return found

    def truth(self, name: str) -> bool:
        """Return the field as a boolean; it must be true, True, false or False."""
        return self.choice(name, {"true": True, "True": True, "false": False, "False": False})

    def member(self, name: str, of: type[E]) -> E:
        """Return the member of the enum that has the field's text as its value."""
        return self.choice(name, {str(member.value): member for member in of})

    def choice(self, name: str, choices: Mapping[str, T]) -> T:
        """Return the value in ``choices`` for the field's text, which must be one of its keys."""
        text = self.text(name)
        if text not in choices:
            raise FieldError(self.where, name, text, " or ".join(choices))
        return choices[text]

    def pairs(self, name: str) -> dict[str, str]:
        """Return the pairs of ``KEY=VALUE;KEY=VALUE``, or of an object in JSON."""
        given, allowed = self.values.get(name), "KEY=VALUE, several apart by ';'"
        if isinstance(given, Mapping):
            parts = [(str(key), "=", str(value)) for key, value in given.items()]
        else:
            parts = [part.strip().partition("=") for part in self.text(name).split(";")]
        if any(not (key and sign) for key, sign, _ in parts) or len({key for key, _, _ in parts}) < len(parts):
            raise FieldError(self.where, name, given, f"{allowed}, each key once")
        return {key: value for key, _, value in parts}

    def columns(self, required: Collection[str], optional: Collection[str] | None = None) -> None:
        """Raise ColumnError if a required column is missing, or a column is neither required nor optional.

        optional: None allows any other column.
        """
        faults = {}
        if optional is not None and (other := self.values.keys() - {*required, *optional}):
            allowed = ", ".join(sorted({*required, *optional}))
            fault = "this column is not allowed" if len(other) == 1 else "these columns are not allowed"
            faults[f"{', '.join(sorted(map(str, other)))}: {fault}; allowed: {allowed}"] = ""
        if missing := [name for name in required if name not in self.values]:
            fault = "this column is missing; add it" if len(missing) == 1 else "these columns are missing; add them"
            faults[f"{', '.join(missing)}: {fault}"] = f"the row has {', '.join(map(str, self.values))}"
        if faults:
            raise ColumnError(self.where, faults)


def read(table: Table, one: Callable[[TraceRow], T]) -> list[T]:
    """Apply ``one`` to every row.

    Raises TraceError with the first fault of each faulty row, and with each fault of the columns once.
    """
    found, faults = [], []
    # ``columns`` has, for each fault of the columns, the location and the details of each row that has the fault
    columns = defaultdict[str, list[tuple[str, str]]](list)
    for position, (where, values) in enumerate(table, 1):
        try:
            found.append(one(TraceRow(where, values, position)))
        except ColumnError as error:
            for fault, details in error.faults.items():
                columns[fault].append((where, details))
        except ValueError as error:
            faults.append(str(error))
    if columns or faults:
        raise TraceError([*(_once(fault, rows, len(table)) for fault, rows in columns.items()), *faults])
    return found


def _once(fault: str, rows: Sequence[tuple[str, str]], count: int) -> str:
    """Return one message for a fault of the columns that these rows have; ``count``: how many rows the whole table
    has.
    """
    where, details = rows[0]
    others = len(rows) - 1
    if others and len(rows) == count:
        file = where.rpartition(", ")[0]
        return f"{file}, every row: {_with(fault, details)}" if file else f"every row: {_with(fault, details)}"
    more = f"; {others} other row{'s have' if others > 1 else ' has'} the same fault" if others else ""
    return f"{where}: {_with(fault, details)}{more}"


def _with(fault: str, details: str) -> str:
    return f"{fault} ({details})" if details else fault


def _as(kind: Callable[[str], T], text: str) -> T | None:
    try:
        return kind(text)
    except ValueError:
        return None
