"""Strict reading of what was written where anybody may write: each reader returns the value, or raises SpoiltError."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from policy.cluster.resources import Resources

MOST = 1e15
MOST_ROWS = 10_000
LONGEST_NAME = 512


class SpoiltError(ValueError):
    """A value that the writer could not have written."""


def whole(value: object, most: int = 10**15, least: int = 0) -> int:
    """Return a whole number in these bounds. Raises SpoiltError."""
    if type(value) is not int or not least <= value <= most:
        raise SpoiltError(f"{value!r:.60} is no whole number from {least} to {most}")
    return value


def number(value: object) -> float:
    """Return a finite number. Raises SpoiltError."""
    if type(value) not in (int, float) or not math.isfinite(value) or abs(value) > MOST:  # type: ignore[arg-type]
        raise SpoiltError(f"{value!r:.60} is no number")
    return float(value)  # type: ignore[arg-type]


def maybe(value: object) -> float | None:
    """Return a finite number, or None. Raises SpoiltError."""
    return None if value is None else number(value)


def truth(value: object) -> bool:
    """Return true or false. Raises SpoiltError."""
    if type(value) is not bool:
        raise SpoiltError(f"{value!r:.60} is not true or false")
    return value


def word(value: object, longest: int = LONGEST_NAME) -> str:
    """Return a text of at most so many characters. Raises SpoiltError."""
    if type(value) is not str or len(value) > longest:
        raise SpoiltError(f"{value!r:.60} is no text of at most {longest} characters")
    return value


def rows(value: object, size: int | None = None) -> list[Any]:
    """Return a list, of that size where one is given. Raises SpoiltError."""
    if type(value) is not list or len(value) > MOST_ROWS or (size is not None and len(value) != size):
        raise SpoiltError(f"{value!r:.60} is no list of {size or 'at most ' + str(MOST_ROWS)}")
    return value


def table(value: object) -> Mapping[str, Any]:
    """Return a mapping by text. Raises SpoiltError."""
    if type(value) is not dict or len(value) > MOST_ROWS:
        raise SpoiltError(f"{value!r:.60} is no mapping")
    return value


def resources(value: object) -> Resources:
    """Return amounts by resource name. Raises SpoiltError."""
    return Resources({word(name): whole(amount) for name, amount in table(value).items()})
