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
    """Raised for a value in an annotation that Kohort cannot have written."""


def whole(value: object, most: int = 10**15, least: int = 0) -> int:
    """Return ``value`` if it is a whole number from ``least`` to ``most``; else raise SpoiltError."""
    if type(value) is not int or not least <= value <= most:
        raise SpoiltError(f"{value!r:.60} is not allowed; allowed: a whole number from {least} to {most}")
    return value


def number(value: object) -> float:
    """Return ``value`` as a float if it is a number from -``MOST`` to ``MOST``; else raise SpoiltError."""
    if type(value) not in (int, float) or not math.isfinite(value) or abs(value) > MOST:  # type: ignore[arg-type]
        raise SpoiltError(f"{value!r:.60} is not allowed; allowed: a number")
    return float(value)  # type: ignore[arg-type]


def maybe(value: object) -> float | None:
    """Return None if ``value`` is None, else the number as ``number`` does, which may raise SpoiltError."""
    return None if value is None else number(value)


def truth(value: object) -> bool:
    """Return ``value`` if it is true or false; else raise SpoiltError."""
    if type(value) is not bool:
        raise SpoiltError(f"{value!r:.60} is not allowed; allowed: true or false")
    return value


def word(value: object, longest: int = LONGEST_NAME) -> str:
    """Return ``value`` if it is a text of at most ``longest`` characters; else raise SpoiltError."""
    if type(value) is not str or len(value) > longest:
        raise SpoiltError(f"{value!r:.60} is not allowed; allowed: text of at most {longest} characters")
    return value


def rows(value: object, size: int | None = None) -> list[Any]:
    """Return ``value`` if it is a list of ``size`` items (None: at most ``MOST_ROWS``); else raise SpoiltError."""
    if type(value) is not list or len(value) > MOST_ROWS or (size is not None and len(value) != size):
        raise SpoiltError(f"{value!r:.60} is not allowed; allowed: a list of {size or 'at most ' + str(MOST_ROWS)}")
    return value


def table(value: object) -> Mapping[str, Any]:
    """Return ``value`` if it is a mapping of at most ``MOST_ROWS`` entries; else raise SpoiltError."""
    if type(value) is not dict or len(value) > MOST_ROWS:
        raise SpoiltError(f"{value!r:.60} is not allowed; allowed: a mapping")
    return value


def resources(value: object) -> Resources:
    """Return ``value``, a mapping from resource names to whole amounts, as Resources; raise SpoiltError for others."""
    return Resources({word(name): whole(amount) for name, amount in table(value).items()})
