"""The lists of the comparison's page: what another policy would have decided on the recorded journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from extender.page.charts import Chart, chart_of
from extender.page.formatting import short_name
from extender.page.frames import Lists, let_loop_run
from extender.page.htmlrows import Rows
from extender.present.views.comparison import ComparisonView, LoadView
from policy.systems import SYSTEMS

POLICIES: Final = tuple(SYSTEMS)
EMPTY: Final[Lists] = {name: [] for name in ("answer", "charts", "courses", "counts", "differences")}


@dataclass(frozen=True, slots=True)
class Moment:
    """The load of the cluster at one moment, once for each policy that is compared.

    If the simulation under a policy ended before this moment, its last load is given.
    """

    at: float
    loads: tuple[LoadView, ...]


@dataclass(frozen=True, slots=True)
class ComparisonPage:
    """Makes the lists of the comparison's page."""

    rows: Rows

    def pending(self, policy: str) -> Lists:
        """Return the page's lists of rows, by name, to show while the comparison is being computed."""
        return {**EMPTY, "answer": [self.rows.html("pending", policy=policy)]}

    def failed(self, text: str) -> Lists:
        """Return the page's lists of rows, by name, to show where the comparison failed; ``text`` says why."""
        return {**EMPTY, "answer": [self.rows.html("failed", text=text)]}

    def of(self, found: ComparisonView) -> Lists:
        """Return the page's lists of rows, by name, that show a finished comparison."""
        row = self.rows.html
        names = _names(found)
        charts = [row("chart", chart=chart) for chart in _charts(found, names)]
        let_loop_run()
        mine, its = found.counts["recorded"], found.counts["other"]
        return {
            "answer": [row("answer", found=found, again=found.other)],
            "charts": charts,
            "courses": [row("course", name=names[key], one=one) for key, one in found.courses.items()],
            "counts": [
                row("actions_row", verb=verb, mine=mine.get(verb, 0), its=its.get(verb, 0))
                for verb in sorted({*mine, *its})
            ],
            "differences": [
                row("difference", one=one, mine=found.recorded, its=found.other) for one in found.differences
            ],
        }


def _names(found: ComparisonView) -> dict[str, str]:
    return {"as_recorded": "as recorded", "recorded": f"{found.recorded}, simulated", "other": found.other}


def _charts(found: ComparisonView, names: dict[str, str]) -> Sequence[Chart]:
    moments = _moments(found)
    resources = sorted({name for one in found.courses.values() for name in one.mean_used}, key=_rank)
    shown = list(enumerate(names[key] for key in found.courses))
    charts = [chart_of("Jobs waiting", moments, found.end, [(name, _waiting(at)) for at, name in shown], shares=False)]
    for resource in resources[:2]:
        title = f"{short_name(resource)} used"
        series = [(name, _used(at, resource)) for at, name in shown]
        charts.append(chart_of(title, moments, found.end, series, shares=True))
    return charts


def _rank(name: str) -> tuple[int, str]:
    return {"cpu": 1, "memory": 2}.get(name, 0), name


def _waiting(course: int) -> Callable[[Moment], float]:
    return lambda moment: moment.loads[course].waiting


def _used(course: int, resource: str) -> Callable[[Moment], float]:
    return lambda moment: moment.loads[course].used.get(resource, 0.0)


def _moments(found: ComparisonView) -> list[Moment]:
    last: dict[int, LoadView] = {}
    made = []
    for loads in zip_longest(*(course.moments for course in found.courses.values())):
        last |= {at: one for at, one in enumerate(loads) if one is not None}
        made.append(Moment(max(one.at for one in loads if one is not None), tuple(last[at] for at in sorted(last))))
    return made
