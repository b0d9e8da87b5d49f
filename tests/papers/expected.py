"""Compare bars with what is expected of them: a bar with a stated reason is a strict expected failure."""

from __future__ import annotations

from collections.abc import Sequence

from lab.papers.experiment import Bar, Row


def surprises(bars: Sequence[Bar], rows: Sequence[Row]) -> list[str]:
    """Return a line for each bar that is missed without a stated reason, and for each that is met in spite of one.

    A reason names the number that is reached, so a bar that is met has outlived its reason.
    """
    return [
        f"{bar.claim}: {bar.value(rows)} is {'met' if bar.met(rows) else 'missed'}; reason: {bar.reason or 'none'}"
        for bar in bars
        if bar.bounded and bar.met(rows) == bool(bar.reason)
    ]
