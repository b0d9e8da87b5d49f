"""Line charts of the last hours as inline SVG. Only the lines are scaled to the width of the page, not the text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, Protocol, TypeVar

from extender.page.formatting import clean, duration, short_name
from extender.page.loadhistory import LoadSample

WIDTH, HEIGHT = 600.0, 100.0
POINTS: Final = 240  # POINTS is the largest number of points in a line; more points would not be visible.
LEAST_SPAN: Final = 600.0  # LEAST_SPAN is the least number of seconds that a chart covers.
GAP: Final = 5.0  # A line is broken where two samples are further apart than GAP times the median distance.


class Timed(Protocol):
    """The type of samples that have a time."""

    @property
    def at(self) -> float:
        """Return the time of the sample, in seconds since the epoch."""
        ...


S = TypeVar("S", bound=Timed)


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart.

    style: the number of its CSS class. path: the SVG path in a box of WIDTH by HEIGHT. area: the same path, closed at
    the bottom. now: the last value as text. summary: the last, lowest and highest value in words.
    """

    name: str
    style: int
    path: str
    area: str
    now: str
    summary: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, with the texts that the template puts around its lines.

    top, middle: the values at the upper edge and at half the height. times: the times at the left, in the middle and at
    the right. empty: the text to show where there are no lines.
    """

    title: str
    lines: tuple[Series, ...]
    top: str
    middle: str
    times: tuple[str, ...]
    empty: str = ""


def charts_of(samples: Sequence[LoadSample], now: float, prices: bool, jobs: bool = True) -> tuple[Chart, ...]:
    """Return the charts of the last hours until ``now``: utilisation, jobs, and with ``prices`` the policy's prices.

    jobs: False leaves the chart of jobs out, because it counts the jobs of all namespaces.
    """
    every = _thinned(samples)
    used = sorted({name for sample in every[-1:] for name in sample.used}, key=_rank)
    charts = [
        _chart("Utilisation", every, now, [(short_name(name), _used(name)) for name in used], lambda _: 1.0, _share)
    ]
    if jobs:
        counted: list[tuple[str, Value]] = [("waiting", lambda s: s.waiting), ("running", lambda s: s.running)]
        charts.append(_chart("Jobs", every, now, counted, _round, _whole))
    if prices:
        priced = sorted({name for sample in every[-1:] for name in sample.prices}, key=_rank)
        series = [(short_name(name), _price(name)) for name in priced]
        charts.append(_chart("Prices", every, now, series, _round, lambda value: f"{value:.3g}"))
    return tuple(charts)


def chart_of(
    title: str, samples: Sequence[S], end: float, series: Sequence[tuple[str, Callable[[S], float]]], *, shares: bool
) -> Chart:
    """Return one chart of all samples until the time ``end``.

    series: for each line its name and the function that reads its value from a sample. shares: the values are shares
    of 1, shown in percent; otherwise they are counts.
    """
    top, told = ((lambda _: 1.0), _share) if shares else (_round, _whole)
    return _chart(title, samples, end, series, top, told, until=_clock(end), least=1.0)


Value = Callable[[LoadSample], float]


def _used(name: str) -> Value:
    return lambda sample: sample.used.get(name, 0.0)


def _price(name: str) -> Value:
    return lambda sample: sample.prices.get(name, 0.0)


def _rank(name: str) -> tuple[int, str]:
    return {"cpu": 1, "memory": 2}.get(name, 0), name  # the sort key puts devices first, since they cost most


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _round(most: float) -> float:
    """Return the upper edge for values up to ``most``: 1, 2 or 5 times a power of ten, so that it rarely changes."""
    if most <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(most))
    return next(step * unit for step in (1, 2, 5, 10) if step * unit >= most * 0.999)


def _thinned(samples: Sequence[LoadSample]) -> Sequence[LoadSample]:
    step = max(1, math.ceil(len(samples) / POINTS))
    return samples[(len(samples) - 1) % step :: step]


def _chart(
    title: str, samples: Sequence[S], now: float, series: Sequence[tuple[str, Callable[[S], float]]],
    top_of: Callable[[float], float], told: Callable[[float], str], until: str = "now",
    least: float = LEAST_SPAN,
) -> Chart:  # fmt: skip
    if not samples or not series:
        empty = "the first values come in a moment" if not samples else "there are no prices yet"
        return Chart(title, (), "", "", ("", "", until), empty)
    begin = min(samples[0].at, now - least)
    top = top_of(max(value(sample) for sample in samples for _, value in series))
    lines = tuple(
        _line(name, at, samples, value, (begin, max(now, begin + 1), top), told)
        for at, (name, value) in enumerate(series)
    )
    middle = (begin + now) / 2
    times = (f"{duration(now - begin)} {'ago' if until == 'now' else 'before'}", _clock(middle), until)
    return Chart(title, lines, told(top), told(top / 2), times)


def _clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M} UTC"


def _line(
    name: str, style: int, samples: Sequence[S], value: Callable[[S], float], box: tuple[float, float, float],
    told: Callable[[float], str],
) -> Series:  # fmt: skip
    begin, now, top = box
    usual = _usual_distance(samples)
    pieces: list[list[tuple[float, float]]] = []
    last = -math.inf
    for sample in samples:
        x = WIDTH * (sample.at - begin) / (now - begin)
        y = HEIGHT * (1 - min(1.0, max(0.0, value(sample) / top)))
        if not pieces or sample.at - last > usual * GAP:
            pieces.append([])
        pieces[-1].append((x, y))
        last = sample.at
    values = [value(sample) for sample in samples]
    summary = f"{clean(name, 40)}: now {told(values[-1])}, lowest {told(min(values))}, highest {told(max(values))}"
    path = "".join(_path(piece) for piece in pieces)
    area = "".join(f"{_path(piece)}V{HEIGHT:.0f}H{piece[0][0]:.1f}Z" for piece in pieces)
    return Series(clean(name, 40), style, path, area, told(values[-1]), summary)


def _usual_distance(samples: Sequence[Timed]) -> float:
    gaps = sorted(after.at - before.at for before, after in pairwise(samples))
    return gaps[len(gaps) // 2] if gaps else math.inf


def _path(points: Sequence[tuple[float, float]]) -> str:
    """Return the SVG path through the points; a single point becomes a short stroke."""
    first, *rest = points
    told = "L".join(f"{x:.1f} {y:.1f}" for x, y in rest or [(first[0] - 1, first[1])])
    return f"M{first[0]:.1f} {first[1]:.1f}L{told}"
