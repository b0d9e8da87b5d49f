"""Strict reading of values from annotations, which anybody may write.

Each function returns the value if it has the right type and lies within its bounds, and else raises SpoiltError.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from policy.cluster.resources import Resources

MOST = 1e15
MOST_ROWS = 10_000
LONGEST_NAME = 512


class SpoiltError(ValueError):
    """A value in an annotation is not one that Kohort could have written."""


def whole(value: object, most: int = 10**15, least: int = 0) -> int:
    """Return ``value``, a whole number from ``least`` to ``most``. Raises SpoiltError."""
    if type(value) is not int or not least <= value <= most:
        raise SpoiltError(f"{value!r:.60} is not allowed; allowed: a whole number from {least} to {most}")
    return value


def number(value: object) -> float:
    """Return ``value``, a finite number of an absolute value of at most ``MOST``, as a float. Raises SpoiltError."""
    if type(value) not in (int, float) or not math.isfinite(value) or abs(value) > MOST:  # type: ignore[arg-type]
        raise SpoiltError(f"{value!r:.60} is not allowed; allowed: a number")
    return float(value)  # type: ignore[arg-type]


def maybe(value: object) -> float | None:
    """Return ``value``, which is None or a number as for ``number``. Raises SpoiltError."""
    return None if value is None else number(value)


def truth(value: object) -> bool:
    """Return ``value``, true or false. Raises SpoiltError."""
    if type(value) is not bool:
        raise SpoiltError(f"{value!r:.60} is not allowed; allowed: true or false")
    return value


def word(value: object, longest: int = LONGEST_NAME) -> str:
    """Return ``value``, a text of at most ``longest`` characters. Raises SpoiltError."""
    if type(value) is not str or len(value) > longest:
        raise SpoiltError(f"{value!r:.60} is not allowed; allowed: text of at most {longest} characters")
    return value


def rows(value: object, size: int | None = None) -> list[Any]:
    """Return ``value``, a list of ``size`` items, or of at most ``MOST_ROWS`` if that is None. Raises SpoiltError."""
    if type(value) is not list or len(value) > MOST_ROWS or (size is not None and len(value) != size):
        raise SpoiltError(f"{value!r:.60} is not allowed; allowed: a list of {size or 'at most ' + str(MOST_ROWS)}")
    return value


def table(value: object) -> Mapping[str, Any]:
    """Return ``value``, a mapping of at most ``MOST_ROWS`` entries. Raises SpoiltError."""
    if type(value) is not dict or len(value) > MOST_ROWS:
        raise SpoiltError(f"{value!r:.60} is not allowed; allowed: a mapping")
    return value


def resources(value: object) -> Resources:
    """Return the resources of a mapping from resource names to whole amounts. Raises SpoiltError."""
    return Resources({word(name): whole(amount) for name, amount in table(value).items()})
