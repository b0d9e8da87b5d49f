"""SpeCon's container monitor (section V-A, Algorithm 1): how fast a job's metric still changes, and so its category.

Reports are not trusted. A report without a metric, or with one that is not a number or is absurdly large, does not
count, and a report that repeats the last value changes nothing. A job that has reported nothing new for a while counts
like a job that has just started: it is never moved, and no job is moved for it.

A job's progress is written to its object, and read back at a restart; no value that is read there is trusted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import Any

from policy.cluster.frozen import replace
from policy.cluster.training import Goal, Report
from policy.cluster.written import SpoiltError, maybe, number, rows, truth, word

BEFORE_RESTART = 10  # Older versions of Kohort wrote this number of fields of a job's progress, without ``restart``.
ABSURD = 1e12  # A metric above this is not believed, because no loss function of a working training returns it.
SILENT_INTERVALS = 3.0
SECONDS_OF_ALPHA = 30.0  # The threshold alpha is a growth within this many seconds, however long the interval is.


class Category(Enum):
    """SpeCon's categories of a job by its progress: PC (progressing), WC (watching) and CC (converged)."""

    PROGRESSING = "progressing"
    WATCHING = "watching"
    CONVERGED = "converged"


class Growth(Enum):
    """How the growth G of a metric is measured.

    ``NORMALISED``: as a share of the reduction so far, per 30 s. ``ABSOLUTE``: as printed, in units of loss per
    interval. An absolute growth means something else for every model, while alpha is "a percentage value" (V-A).
    """

    NORMALISED = "normalised"
    ABSOLUTE = "absolute"


class Ladder(Enum):
    """What happens to a job in WC that slows down further.

    ``TEXT``: it joins CC. ``PRINTED``: lines 10-12 put it into WC again.
    """

    TEXT = "text"
    PRINTED = "printed"


@dataclass(frozen=True, slots=True)
class Monitor:
    """Algorithm 1's parameters.

    alpha: growth below which a job may be slowing down, as a share of the reduction so far per 30 s. interval: t_m -
    t_(m-1), seconds. hysteresis: a job returns to PC only above alpha * (1 + hysteresis). smoothing: the metric E is
    the median of so many reports.
    """

    alpha: float
    interval: float
    growth: Growth
    ladder: Ladder
    hysteresis: float
    smoothing: int


@dataclass(frozen=True, slots=True)
class Progress:
    """What SpeCon remembers of one job. Times are in seconds since the epoch.

    The metric E has its sign changed where more is better, so that less is always better here. since: when the job
    started, or last reported something new. first, best: the first E, and the least so far. value, at: E at the last
    sample, and the time of that sample. growth: G at the last sample. converged: since when the job is in CC. moved:
    Algorithm 2 has decided about the job. balanced: Algorithm 3 has moved it. restart: when a move of the job was last
    seen under way; reports until then are from before the move.
    """

    since: float
    category: Category = Category.PROGRESSING
    first: float | None = None
    best: float | None = None
    value: float | None = None
    at: float | None = None
    growth: float | None = None
    converged: float | None = None
    moved: bool = False
    balanced: bool = False
    restart: float | None = None

    @property
    def was_moved(self) -> bool:
        """Whether either algorithm has moved the job; ``moved`` alone may also mean that it was left where it is."""
        return self.balanced or self.restart is not None

    def silent(self, interval: float, now: float) -> bool:
        """Tell whether the job has reported nothing new for three intervals of ``interval`` seconds."""
        return now - self.since > SILENT_INTERVALS * interval

    def by(self, now: float) -> Progress:
        """Return the progress without times that are later than ``now``; a sample from a later time is forgotten.

        Later times were written while the clock ran ahead. If they were kept, every new report would seem too old.
        """
        if max(self.since, self.at or now, self.converged or now, self.restart or now) <= now:
            return self
        converged, restart = (None if at is None else min(at, now) for at in (self.converged, self.restart))
        return replace(self, since=now, value=None, at=None, growth=None, converged=converged, restart=restart)

    def restarted(self, now: float, *, moved: bool = False, balanced: bool = False) -> Progress:
        """Return the progress of a job that Algorithm 2 (``moved``) or 3 (``balanced``) moves now.

        Its samples are forgotten, so that its next growth is computed between two samples of the restarted job.
        """
        moved, balanced = self.moved or moved, self.balanced or balanced
        told = replace(self, since=now, value=None, at=None, growth=None, moved=moved, balanced=balanced)
        return told.restarting(now)

    def restarting(self, now: float) -> Progress:
        """Return the progress with the note that a move of the job is still under way at ``now``.

        Reports until then do not count, because they come from the old pods.
        """
        return replace(self, restart=now)


def sample(monitor: Monitor, known: Progress, reports: Sequence[Report], goal: Goal, now: float) -> Progress:
    """Return the job's progress after one round of Algorithm 1 (lines 4-22 without the request for another node)."""
    since = -math.inf if known.restart is None else known.restart
    valid = [report for report in reports if report.at > since and _valid(report, now)]
    if not valid or (known.at is not None and valid[-1].at <= known.at):
        return known
    sign = 1.0 if goal is Goal.MIN else -1.0
    values = [sign * report.metric for report in valid if report.metric is not None]
    value, at = median(values[-monitor.smoothing :]), valid[-1].at
    if value == known.value:
        return known
    first = values[0] if known.first is None else known.first
    best = value if known.best is None else min(known.best, value)
    told = replace(known, since=now, first=first, best=best, value=value, at=at)
    growth = _growth(monitor, known, told)
    return told if growth is None else _categorised(monitor, told, growth, now)


def slowing(monitor: Monitor, known: Progress, told: Progress) -> bool:
    """Tell whether the growth G is less than in the last round and less than alpha (line 6).

    ``known``: the job's progress after the last round; ``told``: its progress now.
    """
    if known.growth is None or told.growth is None or told.at == known.at:
        return False
    return told.growth < known.growth and told.growth < monitor.alpha


def _valid(report: Report, now: float) -> bool:
    metric = report.metric
    return metric is not None and math.isfinite(metric) and abs(metric) <= ABSURD and report.at <= now


def _growth(monitor: Monitor, known: Progress, told: Progress) -> float | None:
    """Return the growth G of the metric between the last sample (``known``) and the present one (``told``).

    It is None if there is no last sample, or if the metric has not been reduced yet, so that no share of the reduction
    can be computed.
    """
    if known.value is None or known.at is None or told.value is None or told.at is None:
        return None
    change = abs(told.value - known.value)
    if monitor.growth is Growth.ABSOLUTE:
        return change
    reduction = (told.first or 0.0) - (told.best or 0.0)
    return change / reduction * SECONDS_OF_ALPHA / (told.at - known.at) if reduction > 0.0 else None


def _categorised(monitor: Monitor, told: Progress, growth: float, now: float) -> Progress:
    """Return the progress with the category that lines 6-22 give it.

    The paper has no branch for G equal to alpha: the job stays in its category.
    """
    before, told = told, replace(told, growth=growth)
    if before.growth is None:
        return told
    if growth < before.growth and growth < monitor.alpha:
        return _slower(monitor, told, now)
    if growth > monitor.alpha * (1.0 + monitor.hysteresis):
        return replace(told, category=Category.PROGRESSING, converged=None)
    return told


def _slower(monitor: Monitor, told: Progress, now: float) -> Progress:
    match told.category:
        case Category.PROGRESSING:
            return replace(told, category=Category.WATCHING)
        case Category.WATCHING if monitor.ladder is Ladder.TEXT:
            return replace(told, category=Category.CONVERGED, converged=now)
        case _:
            return told


def write_progress(told: Progress) -> list[Any]:
    """Return the progress as a list of JSON values, in the order of the fields of ``Progress``."""
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
