"""The lists of the page at ``/``: header, figures, charts, queue, running jobs, decisions and nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from extender.access.sight import EVERYTHING, Sight
from extender.access.veil import Veil
from extender.observe.health import Readiness
from extender.page.charts import charts_of
from extender.page.frames import Lists, breathe
from extender.page.history import History
from extender.page.marks import Look, Looks
from extender.page.nodemap import Mapper, NodeMap
from extender.page.rows import Rows
from extender.page.story import Line, Story
from extender.page.words import duration, needs, percent
from extender.present.jobs import refused_views, waits
from extender.present.views.refused import RefusedView
from extender.state.ledger import Ledger
from policy.answers.queue import Place, places
from policy.cluster.gang import State
from policy.cluster.model import Job
from policy.cluster.snapshot import Snapshot, reason_of
from policy.cluster.words import counted

MOST_QUEUED: Final = 200
MOST_LINES: Final = 80
_PREFIX: Final = "kohort: "
_SETTLED: Final = (State.RUNNING,)


class Vitals(Protocol):
    """The source of the service's health."""

    def readiness(self) -> Readiness:
        """Return the checks of ``/readyz``."""
        ...


class Queued(NamedTuple):
    """A row of the queue.

    It leaves out its place and its wait, so that a new job or a passing minute changes no other row.
    """

    look: Look
    namespace: str
    name: str
    kind: str
    shape: str
    needs: str
    weight: str
    arrival: float
    starving: bool
    reason: str
    text: str
    detail: str
    behind: str


class Queue(NamedTuple):
    """The waiting jobs and their places.

    A place is 0 for a job that does not queue: malformed, suspended, or being released.
    """

    places: tuple[int, ...]
    rows: tuple[Queued, ...]

    @property
    def queueing(self) -> list[Queued]:
        """Return the rows that have a place."""
        return [row for place, row in zip(self.places, self.rows, strict=True) if place]

    @property
    def told(self) -> str:
        """Return the places as texts for the first cells of the rows."""
        return " ".join(str(place or "–") for place in self.places[:MOST_QUEUED])


class Running(NamedTuple):
    """A row of the jobs that hold resources.

    given: workers that the policy gave the job. there: workers that are bound.
    """

    look: Look
    namespace: str
    name: str
    kind: str
    state: str
    low: int
    given: int
    there: int
    high: int
    nodes: int
    rival: str


class Overview:
    """Makes the lists of the page at ``/``. Only one thread may use it at a time."""

    def __init__(
        self,
        ledger: Ledger,
        vitals: Vitals,
        history: History,
        story: Story,
        rows: Rows,
        looks: Looks,
        sight: Sight = EVERYTHING,
    ) -> None:
        """Prepare the page for viewers with this sight; the story and the looks may be shared with other viewers."""
        self._ledger = ledger
        self._vitals = vitals
        self._history = history
        self._story = story
        self._rows = rows
        self.looks = looks
        self._sight = sight
        self._veil = Veil(sight)
        self._mapper = Mapper(looks, breathe, sight)
        self._charted: tuple[float, list[str]] | None = None  # by the revision of the history

    def make(self) -> tuple[int, Lists, Mapping[str, str]]:
        """Return revision, lists and facts of the current snapshot."""
        snapshot, now = self._ledger.snapshot, self._ledger.now()
        self._story.read_on()
        self.looks.keep(snapshot.jobs.keys())
        breathe()
        queue = self._queue(snapshot, now)
        breathe()
        running = tuple(self._running(snapshot))
        breathe()
        nodes = self._mapper.draw(snapshot)
        breathe()
        lists = {
            "status": [self._rows.html("status", **self._status(snapshot))],
            "figures": [self._rows.html("figures", figures=_figures(snapshot, queue, running, nodes, now))],
            "charts": self._charts(now),
            "reasons": [self._rows.html("reasons", reasons=_reasons(queue.rows))],
            "queue": self._rows.all("queued", queue.rows[:MOST_QUEUED], self._more(len(queue.rows) - MOST_QUEUED)),
            "running": self._rows.all("running", running),
            "decisions": self._rows.all("decision", self._decisions()),
            "nodes": nodes.tiles,
        }
        title = f"Kohort – {len(queue.queueing)} waiting"
        facts = {"density": nodes.density, "title": title, "now": f"{now:.3f}", "places": queue.told}
        return snapshot.generation, lists, facts

    def _more(self, number: int) -> list[str]:
        return [self._rows.html("more", number=number)] if number > 0 else []

    def _charts(self, now: float) -> list[str]:
        """Return the charts, which change only with a new sample: a few seconds of hours would not be visible."""
        revision = self._history.revision
        if self._charted is None or self._charted[0] != revision:
            samples, jobs = tuple(self._history), self._sight.every
            charts = charts_of(samples, now, prices=any(sample.prices for sample in samples), jobs=jobs)
            self._charted = revision, [self._rows.html("chart", chart=chart) for chart in charts]
        return self._charted[1]

    def _status(self, snapshot: Snapshot) -> dict[str, Any]:
        readiness = self._vitals.readiness()
        failing = [f"{check.name}: {check.detail}" for check in readiness.checks if check.fatal and not check.ok]
        return {
            "policy": self._ledger.policy.name,
            "leading": snapshot.leading,
            "synced": snapshot.synced,
            "wrong": self._veil.warnings((*failing, *readiness.warnings)),
            "checks": len(readiness.checks),
            "failing": bool(failing),
        }

    def _queue(self, snapshot: Snapshot, now: float) -> Queue:
        seen = [place for place in self._waiting(snapshot, now) if self._sight.sees(place.job.namespace)]
        refused = refused_views(snapshot)
        rows = tuple(self._queue_row(snapshot, place, refused.get(place.job.uid, ())) for place in seen)
        return Queue(tuple(place.position for place in seen), rows)

    def _waiting(self, snapshot: Snapshot, now: float) -> Iterator[Place]:
        placed = set()
        for place in places(snapshot, self._ledger.policy, now):
            placed.add(place.job.uid)
            yield place
        for job in snapshot.jobs.values():
            if job.uid not in placed and not job.finished and not snapshot.gang(job.uid).admitted:
                yield Place(0, job, None, starving=False)

    def _queue_row(self, snapshot: Snapshot, place: Place, refused: Sequence[RefusedView]) -> Queued:
        job = place.job
        told = waits(snapshot, job)
        detail = self._veil.text(told.detail) if told else ""
        more = (self._veil.view(one).text for one in refused)
        reason = reason_of(snapshot, job).reason
        return Queued(
            self.looks.of(job.uid), job.namespace, job.name, job.kind, shape_of(job),
            needs(job.requests(job.min_workers)), f"{place.weight:.3f}" if place.weight is not None else "",
            job.arrival, place.starving, told.reason if told else reason.value,
            (told.text if told else reason.text).removeprefix(_PREFIX),
            "; ".join(part for part in (detail, *more) if part), self._veil.text(told.behind) if told else "",
        )  # fmt: skip

    def _running(self, snapshot: Snapshot) -> Iterator[Running]:
        seen = (job for job in snapshot.running() if self._sight.sees(job.namespace))
        for job in sorted(seen, key=lambda job: _order(snapshot, job)):
            gang = snapshot.gang(job.uid)
            there = sum(1 for pod in snapshot.pods_of(job.uid) if pod.holds_room and pod.slot and not pod.terminating)
            rigid = sum(role.replicas for role in job.rigid)
            rival = snapshot.jobs.get(gang.on_behalf_of)
            yield Running(
                self.looks.of(job.uid), job.namespace, job.name, job.kind, gang.state.value, job.min_workers,
                gang.workers, max(0, there - rigid), job.max_workers, len(set(gang.nodes.values())),
                self._veil.text(rival.key) if rival is not None and gang.grew is False else "",
            )  # fmt: skip

    def _decisions(self) -> list[tuple[Line, Look | None]]:
        every = islice((self._line(line) for line in self._story.lines() if self._told(line)), MOST_LINES)
        known = self._ledger.snapshot.jobs
        return [(line, self.looks.of(line.uid) if line.uid in known else None) for line in every]

    def _told(self, line: Line) -> bool:
        return self._sight.every or self._sight.sees(line.uid.partition("/")[0])

    def _line(self, line: Line) -> Line:
        inputs = self._veil.inputs(dict(line.inputs))
        return replace(line, text=self._veil.text(line.text), inputs=tuple(inputs.items()))


def _order(snapshot: Snapshot, job: Job) -> tuple[bool, str]:
    """Sort key: jobs whose state is not running come first."""
    return snapshot.gang(job.uid).state in _SETTLED, job.key


def shape_of(job: Job) -> str:
    """Return the roles of a job: ``1 ps + 2–8 workers``."""
    parts = [f"{role.replicas} {role.name}" for role in job.rigid]
    if job.worker is not None:
        low, high = job.min_workers, job.max_workers
        parts.append(counted(high, "worker") if low == high else f"{low}–{high} workers")
    return " + ".join(parts)


def _reasons(queue: tuple[Queued, ...]) -> list[tuple[str, str, int]]:
    """Return each reason, its text and how many jobs wait for it, the most frequent first."""
    counts = Counter((row.reason, row.text) for row in queue)
    return [(reason, text, number) for (reason, text), number in counts.most_common(8)]


Figure = tuple[str, str, str, bool]


def _figures(
    snapshot: Snapshot, queue: Queue, running: tuple[Running, ...], nodes: NodeMap, now: float
) -> list[Figure]:
    """Return, for each figure, its name, its value, a note, and whether an operator should look at it."""
    waiting = queue.queueing
    starving, moving = sum(row.starving for row in waiting), sum(row.state != "running" for row in running)
    down = sum(not node.ready for node in snapshot.nodes.values())
    cordoned = sum(node.unschedulable and node.ready for node in snapshot.nodes.values())
    first = min((row.arrival for row in waiting), default=now)
    longest = f"longest {duration(now - first)}" if waiting else "no job waits"
    away = f"{down} down" if down else f"{cordoned} cordoned" if cordoned else "all ready"
    pairs = f"of {counted(nodes.pairs, 'pair')}, {counted(nodes.cross_jobs, 'job')}"
    cross = pairs if nodes.pairs else "no ps–worker pairs"
    return [
        ("Waiting", f"{len(waiting):,}", f"{starving} starving" if starving else longest, starving > 0),
        ("Running", f"{len(running):,}", f"{moving} changing" if moving else "none changing", False),
        ("Nodes", f"{len(snapshot.nodes):,}", away, down > 0),
        ("Across nodes", percent(nodes.cross, nodes.pairs), cross, False),
    ]
