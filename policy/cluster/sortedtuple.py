"""Sorted tuples used as sets: a test of membership, and a copy with entries added and removed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, TypeVar

E = TypeVar("E", bound=Any)  # a name, or a tuple that ends with a name


def in_sorted(names: tuple[str, ...], name: str) -> bool:
    """Tell whether the sorted tuple has the name."""
    at = bisect_left(names, name)
    return at < len(names) and names[at] == name


def with_changes(old: tuple[E, ...], belongs: Mapping[E, bool]) -> tuple[E, ...]:
    """Return the sorted tuple with the entries that ``belongs`` maps to True, and without those that it maps to False.

    If nothing changes, the same tuple is returned.
    """
    new: list[E] | None = None
    for name, wanted in belongs.items():
        there = old if new is None else new
        at = bisect_left(there, name)
        if (at < len(there) and there[at] == name) is not wanted:
            new = list(old) if new is None else new
            new[at : at + (not wanted)] = [name] if wanted else []
    return old if new is None else tuple(new)
