"""Reads reports on a training's progress: the body of a request, and the job's annotation ``kohort.dev/progress``.

Both are the same JSON: ``{"metric": 0.31, "step": 1200, "steps": 5000, "time": 1795290112.0}``. A report over the
network needs no time, and may have ``saved`` (a checkpoint is saved); an annotation needs a time, because the job
object does not say when the annotation was written.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from extender.http.strict import RequestError, refuse_duplicates
from policy.cluster.training import AHEAD_SECONDS, MOST_VALUE, Report

MOST_ANNOTATION: Final = 1024  # an annotation with more characters is not read


class ReportBody(msgspec.Struct, forbid_unknown_fields=True):
    """The fields that a report may have.

    ``step``: the number of steps done. ``steps``: the number of steps in all. ``time``: when the values were measured,
    in seconds since the epoch. ``saved``: the training has saved a checkpoint.
    """

    metric: float | None = None
    step: int | None = None
    steps: int | None = None
    time: float | None = None
    saved: bool = False


class ReportBodyError(ValueError):
    """A report cannot be used; the message names the field, its value and what is allowed."""


def read_report_body(body: bytes) -> ReportBody:
    """Return the fields of a report. Raises ReportBodyError where the JSON cannot be used."""
    try:
        refuse_duplicates(body)
        return msgspec.json.decode(body, type=ReportBody)
    except (RequestError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ReportBodyError(f"the body: {error}; allowed: JSON with metric, step, steps, time, saved") from None


def report_of(body: ReportBody, now: float) -> Report | None:
    """Return the report in ``body``; None where the body has only ``saved``. Raises ReportBodyError for bad values.

    ``now``: when the report arrived, in seconds since the epoch; a report without a time gets this one.
    """
    if body.metric is not None and not abs(body.metric) <= MOST_VALUE:
        raise ReportBodyError(f"metric: {body.metric} is not allowed; allowed: a number up to {MOST_VALUE:g}")
    if body.time is not None and not 0 < body.time <= now + AHEAD_SECONDS:
        raise ReportBodyError(
            f"time: {body.time} is not allowed; allowed: seconds since the epoch, up to now ({now:.0f})"
        )
    done = None
    if body.step is not None and body.steps is not None:
        if not 0 <= body.step <= body.steps or not body.steps:
            raise ReportBodyError(f"step: {body.step} is not allowed; allowed: 0 to steps ({body.steps})")
        done = body.step / body.steps
    if body.metric is None and done is None:
        if body.saved:
            return None
        raise ReportBodyError("the body: nothing is reported; allowed: a metric, or step and steps")
    return Report(now if body.time is None else min(body.time, now), body.metric, done)


def annotated_report(text: str) -> tuple[Report, ...]:
    """Return the report in the annotation's text as a tuple of one; an empty tuple where the text cannot be used.

    No error is raised, because a bad report must not stop a job.
    """
    if not text or len(text) > MOST_ANNOTATION:
        return ()
    try:
        body = read_report_body(text.encode())
        report = None if body.time is None else report_of(body, body.time)
    except (ReportBodyError, UnicodeEncodeError):
        return ()
    return () if report is None or not math.isfinite(report.at) else (report,)
