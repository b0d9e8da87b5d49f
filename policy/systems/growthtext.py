"""What is remembered of a job's growth, as its object holds it. Nothing that is read is trusted."""

from __future__ import annotations

from typing import Any

from policy.cluster.written import SpoiltError, maybe, number, rows, truth, word
from policy.systems.growth import Category, Progress


def write_progress(told: Progress) -> list[Any]:
    """In the order of Progress's fields."""
    return [
        told.since, told.category.value, told.first, told.best, told.value, told.at, told.growth, told.converged,
        told.moved, told.balanced,
    ]  # fmt: skip


def read_progress(written: object) -> Progress | None:
    """What ``write_progress`` wrote; None where it could not have."""
    try:
        since, category, first, best, value, at, growth, converged, moved, balanced = rows(written, 10)
        return Progress(
            number(since), Category(word(category)), maybe(first), maybe(best), maybe(value), maybe(at), maybe(growth),
            maybe(converged), truth(moved), truth(balanced),
        )  # fmt: skip
    except (SpoiltError, ValueError):
        return None
