"""Reads how far a training is: the body of a report, and the job's annotation ``kohort.dev/progress``.

Both are the same JSON: ``{"metric": 0.31, "step": 1200, "steps": 5000, "time": 1795290112.0}``. A report over the
network needs no time, and may have ``saved``; an annotation needs a time, because nobody knows when it was written.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from extender.http.strict import RequestError, refuse_duplicates
from policy.cluster.training import AHEAD_SECONDS, MOST_VALUE, Report

LONGEST: Final = 1024  # characters of the annotation


class Told(msgspec.Struct, forbid_unknown_fields=True):
    """The fields that a report may have; ``time`` is in seconds since the epoch."""

    metric: float | None = None
    step: int | None = None
    steps: int | None = None
    time: float | None = None
    saved: bool = False


class ToldError(ValueError):
    """A report cannot be used: the field, the value and what is allowed."""


def read_told(body: bytes) -> Told:
    """Return the fields of a report. Raises ToldError where the JSON cannot be used."""
    try:
        refuse_duplicates(body)
        return msgspec.json.decode(body, type=Told)
    except (RequestError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ToldError(f"the body: {error}; allowed: JSON with metric, step, steps, time, saved") from None


def report_of(told: Told, now: float) -> Report | None:
    """Return the report; None where it holds only ``saved``. ``now``: when it arrived. Raises ToldError."""
    if told.metric is not None and not abs(told.metric) <= MOST_VALUE:
        raise ToldError(f"metric: {told.metric} is not allowed; allowed: a number up to {MOST_VALUE:g}")
    if told.time is not None and not 0 < told.time <= now + AHEAD_SECONDS:
        raise ToldError(f"time: {told.time} is not allowed; allowed: seconds since the epoch, up to now ({now:.0f})")
    done = None
    if told.step is not None and told.steps is not None:
        if not 0 <= told.step <= told.steps or not told.steps:
            raise ToldError(f"step: {told.step} is not allowed; allowed: 0 to steps ({told.steps})")
        done = told.step / told.steps
    if told.metric is None and done is None:
        if told.saved:
            return None
        raise ToldError("the body: nothing is reported; allowed: a metric, or step and steps")
    return Report(now if told.time is None else min(told.time, now), told.metric, done)


def noted(text: str) -> tuple[Report, ...]:
    """Return the report that the annotation holds; none where it cannot be used, because a bad report must not stop a
    job.
    """
    if not text or len(text) > LONGEST:
        return ()
    try:
        told = read_told(text.encode())
        report = None if told.time is None else report_of(told, told.time)
    except (ToldError, UnicodeEncodeError):
        return ()
    return () if report is None or not math.isfinite(report.at) else (report,)
