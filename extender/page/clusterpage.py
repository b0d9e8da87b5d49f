"""The lists of the page at ``/``: header, figures, charts, queue, running jobs, decisions and nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from extender.access.redaction import Redaction
from extender.access.visibility import EVERYTHING, Visibility
from extender.observe.health import Readiness
from extender.page.charts import charts_of
from extender.page.formatting import duration, needs, percent
from extender.page.frames import Lists, let_loop_run
from extender.page.htmlrows import Rows
from extender.page.loadhistory import History
from extender.page.marks import Look, Looks
from extender.page.nodemap import NodeMap, NodeMapDrawer
from extender.page.timeline import Timeline, TimelineEntry
from extender.present.jobviews import refused_views, waits
from extender.present.views.refused import RefusedView
from extender.state.ledger import Ledger
from policy.answers.queue import Place, places
from policy.cluster.gang import State
from policy.cluster.job import Job
from policy.cluster.reasons import without_advice
from policy.cluster.snapshot import Snapshot, reason_of
from policy.cluster.words import counted

MOST_QUEUED: Final = 200
MOST_LINES: Final = 80
_PREFIX: Final = "kohort: "
_SETTLED: Final = (State.RUNNING,)


class ReadinessSource(Protocol):
    """The type of objects that run the service's health checks."""

    def readiness(self) -> Readiness:
        """Return the results of the health checks that ``/readyz`` shows."""
        ...


class QueuedRow(NamedTuple):
    """A row of the queue's table, without the job's position in the queue and its waiting time.

    The position and the time change for many rows at once. Without them a row's HTML can be kept, and `htmlrows.placed`
    adds them later.
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


class QueueRows(NamedTuple):
    """The rows of the queue's table, and the position of each job in the queue, counted from 1.

    The position is 0 for a job that is not in the queue: malformed, suspended, or being released.
    """

    places: tuple[int, ...]
    rows: tuple[QueuedRow, ...]

    @property
    def queueing(self) -> list[QueuedRow]:
        """Return the rows of the jobs that are in the queue."""
        return [row for place, row in zip(self.places, self.rows, strict=True) if place]

    @property
    def place_texts(self) -> str:
        """Return the positions in the queue that the first column of the queue's table shows, in one text, separated by
        spaces.

        A job that is not in the queue has a dash. Only the first `MOST_QUEUED` rows are shown.
        """
        return " ".join(str(place or "–") for place in self.places[:MOST_QUEUED])


class RunningRow(NamedTuple):
    """A row of the list of jobs that hold resources.

    low, high: the bounds of the job's workers. given: how many workers the policy gave the job. there: how many of its
    workers are bound. nodes: the number of nodes of its plan. rival: the job for which it was shrunk last, or empty.
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


class ClusterPage:
    """Makes the lists of the page at ``/``. Only one thread may use it at a time."""

    def __init__(
        self,
        ledger: Ledger,
        vitals: ReadinessSource,
        history: History,
        timeline: Timeline,
        rows: Rows,
        looks: Looks,
        visibility: Visibility = EVERYTHING,
    ) -> None:
        """Prepare the page for viewers with this visibility.

        The pages for other viewers may share ``timeline`` (the lines of decisions) and ``looks`` (each job's colour and
        shape).
        """
        self._ledger = ledger
        self._vitals = vitals
        self._history = history
        self._timeline = timeline
        self._rows = rows
        self.looks = looks
        self._visibility = visibility
        self._redaction = Redaction(visibility)
        self._drawer = NodeMapDrawer(looks, let_loop_run, visibility)
        # _charted has the charts that were drawn last, and the revision of the history that they show.
        self._charted: tuple[float, list[str]] | None = None

    def make(self) -> tuple[int, Lists, Mapping[str, str]]:
        """Return the snapshot's number (generation), the page's lists of rows by name, and its other texts by name."""
        snapshot, now = self._ledger.snapshot, self._ledger.now()
        self._timeline.read_on()
        self.looks.keep(snapshot.jobs.keys())
        let_loop_run()
        queue = self._queue(snapshot, now)
        let_loop_run()
        running = tuple(self._running(snapshot))
        let_loop_run()
        nodes = self._drawer.draw(snapshot)
        let_loop_run()
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
        facts = {"density": nodes.density, "title": title, "now": f"{now:.3f}", "places": queue.place_texts}
        return snapshot.generation, lists, facts

    def _more(self, number: int) -> list[str]:
        return [self._rows.html("more", number=number)] if number > 0 else []

    def _charts(self, now: float) -> list[str]:
        """Return the charts; they are drawn again only after a new sample, because a few seconds more would not be
        visible.
        """
        revision = self._history.revision
        if self._charted is None or self._charted[0] != revision:
            samples, jobs = tuple(self._history), self._visibility.every
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
            "wrong": self._redaction.warnings((*failing, *readiness.warnings)),
            "checks": len(readiness.checks),
            "failing": bool(failing),
        }

    def _queue(self, snapshot: Snapshot, now: float) -> QueueRows:
        seen = [place for place in self._waiting(snapshot, now) if self._visibility.sees(place.job.namespace)]
        refused = refused_views(snapshot)
        rows = tuple(self._queue_row(snapshot, place, refused.get(place.job.uid, ())) for place in seen)
        return QueueRows(tuple(place.position for place in seen), rows)

    def _waiting(self, snapshot: Snapshot, now: float) -> Iterator[Place]:
        placed = set()
        for place in places(snapshot, self._ledger.policy, now):
            placed.add(place.job.uid)
            yield place
        for job in snapshot.jobs.values():
            if job.uid not in placed and not job.finished and not snapshot.gang(job.uid).admitted:
                yield Place(0, job, None, starving=False)

    def _queue_row(self, snapshot: Snapshot, place: Place, refused: Sequence[RefusedView]) -> QueuedRow:
        job = place.job
        shown = waits(snapshot, job)
        detail = self._redaction.text(shown.detail) if shown else ""
        more = (self._redaction.view(one).text for one in refused)
        reason = reason_of(snapshot, job).reason
        return QueuedRow(
            self.looks.of(job.uid), job.namespace, job.name, job.kind, shape_of(job),
            needs(job.requests(job.min_workers)), f"{place.weight:.3f}" if place.weight is not None else "",
            job.arrival, place.starving, shown.reason if shown else reason.value,
            without_advice(shown.text if shown else reason.text).removeprefix(_PREFIX),
            "; ".join(part for part in (detail, *more) if part), self._redaction.text(shown.behind) if shown else "",
        )  # fmt: skip

    def _running(self, snapshot: Snapshot) -> Iterator[RunningRow]:
        seen = (job for job in snapshot.running() if self._visibility.sees(job.namespace))
        for job in sorted(seen, key=lambda job: _order(snapshot, job)):
            gang = snapshot.gang(job.uid)
            there = sum(1 for pod in snapshot.pods_of(job.uid) if pod.holds_room and pod.slot and not pod.terminating)
            rigid = sum(role.replicas for role in job.rigid)
            rival = snapshot.jobs.get(gang.scaling.on_behalf_of)
            yield RunningRow(
                self.looks.of(job.uid), job.namespace, job.name, job.kind, gang.state.value, job.min_workers,
                gang.workers, max(0, there - rigid), job.max_workers, len(set(gang.nodes.values())),
                self._redaction.text(rival.key) if rival is not None and gang.scaling.grew is False else "",
            )  # fmt: skip

    def _decisions(self) -> list[tuple[TimelineEntry, Look | None]]:
        every = islice((self._line(line) for line in self._timeline.lines() if self._may_see(line)), MOST_LINES)
        known = self._ledger.snapshot.jobs
        return [(line, self.looks.of(line.uid) if line.uid in known else None) for line in every]

    def _may_see(self, line: TimelineEntry) -> bool:
        return self._visibility.every or self._visibility.sees(line.uid.partition("/")[0])

    def _line(self, line: TimelineEntry) -> TimelineEntry:
        inputs = self._redaction.inputs(dict(line.inputs))
        return replace(line, text=self._redaction.text(line.text), inputs=tuple(inputs.items()))


def _order(snapshot: Snapshot, job: Job) -> tuple[bool, str]:
    """Return the sort key of a job in the list of jobs that hold resources: jobs in another state than running come
    first, each group in order of name.
    """
    return snapshot.gang(job.uid).state in _SETTLED, job.key


def shape_of(job: Job) -> str:
    """Return the roles of a job with their numbers of pods as text: ``1 ps + 2–8 workers``."""
    parts = [f"{role.replicas} {role.name}" for role in job.rigid]
    if job.worker is not None:
        low, high = job.min_workers, job.max_workers
        parts.append(counted(high, "worker") if low == high else f"{low}–{high} workers")
    return " + ".join(parts)


def _reasons(queue: tuple[QueuedRow, ...]) -> list[tuple[str, str, int]]:
    """Return each reason for which jobs wait, as (code, text, number of jobs), the most frequent reason first; at most
    eight.
    """
    counts = Counter((row.reason, row.text) for row in queue)
    return [(reason, text, number) for (reason, text), number in counts.most_common(8)]


Figure = tuple[str, str, str, bool]


def _figures(
    snapshot: Snapshot, queue: QueueRows, running: tuple[RunningRow, ...], nodes: NodeMap, now: float
) -> list[Figure]:
    """Return the figures at the top of the page: (name, value, note, whether an operator should look into it)."""
    waiting = queue.queueing
    starving, moving = sum(row.starving for row in waiting), sum(row.state != "running" for row in running)
    down = sum(not node.ready for node in snapshot.nodes.values())
    cordoned = sum(node.unschedulable and node.ready for node in snapshot.nodes.values())
    avoided = sum(name in snapshot.nodes and snapshot.nodes[name].shunned > 0 for name in snapshot.failures)
    first = min((row.arrival for row in waiting), default=now)
    longest = f"longest {duration(now - first)}" if waiting else "no job waits"
    counts = ((down, "down"), (cordoned, "cordoned"), (avoided, "avoided"))
    away = next((f"{count} {what}" for count, what in counts if count), "all ready")
    pairs = f"of {counted(nodes.pairs, 'pair')}, {counted(nodes.cross_jobs, 'job')}"
    cross = pairs if nodes.pairs else "no ps–worker pairs"
    return [
        ("Waiting", f"{len(waiting):,}", f"{starving} starving" if starving else longest, starving > 0),
        ("Running", f"{len(running):,}", f"{moving} changing" if moving else "none changing", False),
        ("Nodes", f"{len(snapshot.nodes):,}", away, down > 0),
        ("Across nodes", percent(nodes.cross, nodes.pairs), cross, False),
    ]
