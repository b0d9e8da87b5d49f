"""How SpeCon's progress of a job is written to the job's object and read back; no value that is read is trusted."""

from __future__ import annotations

from typing import Any

from policy.cluster.written import SpoiltError, maybe, number, rows, truth, word
from policy.systems.growth import Category, Progress

BEFORE_RESTART = 10  # the number of fields in older texts, which lack ``restart``


def write_progress(told: Progress) -> list[Any]:
    """Return the values in the order of Progress's fields."""
    return [
        told.since, told.category.value, told.first, told.best, told.value, told.at, told.growth, told.converged,
        told.moved, told.balanced, told.restart,
    ]  # fmt: skip


def read_progress(written: object) -> Progress | None:
    """Return the progress that ``write_progress`` wrote; None for a value that it could not have written."""
    try:
        told = rows(written)
        told = [*told, None] if len(told) == BEFORE_RESTART else told
        since, category, first, best, value, at, growth, converged, moved, balanced, restart = rows(told, 11)
        return Progress(
            number(since), Category(word(category)), maybe(first), maybe(best), maybe(value), maybe(at), maybe(growth),
            maybe(converged), truth(moved), truth(balanced), maybe(restart),
        )  # fmt: skip
    except (SpoiltError, ValueError):
        return None
