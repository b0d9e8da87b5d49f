"""Read the rows of a trace, and report all faults in them at once: location, column, value and what is allowed.

Each row comes with a text for its location (``jobs.csv, line 7``), which the reader of the file provides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=Enum)
TOLD = 20  # an error message lists at most so many faults, and only counts the others

Table = Sequence[tuple[str, Mapping[str, object]]]


class TraceError(ValueError):
    """A trace cannot be used; each of ``faults`` names file, line, field, value and what is allowed."""

    def __init__(self, faults: Sequence[str]) -> None:
        more = len(faults) - TOLD
        super().__init__("\n".join([*faults[:TOLD], *([f"and {more} more"] if more > 0 else [])]))
        self.faults = tuple(faults)


class FieldError(ValueError):
    """A faulty field of one row."""

    def __init__(self, where: str, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{where}: {name}: {value!r} is not allowed; allowed: {allowed}")


def numbered(rows: Iterable[Mapping[str, object]], name: str = "") -> Table:
    """Return rows from memory with the locations ``row 1``, ``row 2`` and so on."""
    return [(f"{name}, row {number}" if name else f"row {number}", row) for number, row in enumerate(rows, 1)]


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One row of the table; ``where`` is its location in words, ``position`` its number, from 1.

    Every method raises FieldError for a faulty value, and ValueError for a missing column.
    """

    where: str
    values: Mapping[str, object]
    position: int = 1

    def has(self, name: str) -> bool:
        """Tell whether the column exists and is not empty."""
        return self.values.get(name) not in (None, "")

    def text(self, name: str) -> str:
        """Return the field, which must not be empty."""
        if name not in self.values:
            has = ", ".join(map(str, self.values))
            raise ValueError(f"{self.where}: {name}: this column is missing; add it (the row has {has})")
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

    def count(self, name: str, *, least: int = 0, bound: str = "") -> int:
        """Return a whole number of at least ``least``; ``bound`` is the column that ``least`` comes from."""
        found = _as(int, self.text(name))
        if found is None or found < least:
            allowed = f"a whole number of at least {least}{f' ({bound})' if bound else ''}"
            raise FieldError(self.where, name, self.values[name], allowed)
        return found

    def truth(self, name: str) -> bool:
        """Return a boolean, written as in JSON or as a word."""
        return self.choice(name, {"true": True, "True": True, "false": False, "False": False})

    def member(self, name: str, of: type[E]) -> E:
        """Return an enum's member by its value."""
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

    def only(self, known: Collection[str]) -> None:
        """Raise FieldError for a column that is not known."""
        for name, value in self.values.items():
            if name not in known:
                raise FieldError(self.where, str(name), value, f"these columns: {', '.join(sorted(known))}")


def read(table: Table, one: Callable[[TraceRow], T]) -> list[T]:
    """Apply ``one`` to every row. Raises TraceError with the first fault of each faulty row."""
    found, faults = [], []
    for position, (where, values) in enumerate(table, 1):
        try:
            found.append(one(TraceRow(where, values, position)))
        except ValueError as error:
            faults.append(str(error))
    if faults:
        raise TraceError(faults)
    return found


def _as(kind: Callable[[str], T], text: str) -> T | None:
    try:
        return kind(text)
    except ValueError:
        return None
