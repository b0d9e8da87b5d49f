"""Render the demo: a live view on a terminal, plain progress lines elsewhere, and the table at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from extender.app import Live as Service
from extender.present.decisionviews import decisions_view
from extender.present.jobviews import job_view, queue_view
from lab.embedded.observer import RunEnding, RunObserver, computes
from lab.sim.objects import JobObject, PodObject
from policy.cluster.gang import Gang
from policy.cluster.job import PS, Job
from policy.cluster.node import Node

FRAMES_PER_SECOND: Final = 4
LINE_EVERY: Final = 120.0  # a progress line is printed each time that this many seconds of cluster time have passed
NARROWEST: Final = 150  # a terminal with fewer columns shows a panel for one side and a line for the other
DECISIONS: Final = 6
MOST: Final = 10_000
SHOWN: Final = (
    "Admit",
    "Bound",
    "Shrunk",
    "Grown",
    "WriteRefused",
    "Resize",
    "Stalled",
    "ShrinkStalled",
    "Released",
    "Reject",
)
COLOURS: Final = ("cyan", "green", "magenta", "yellow", "blue", "bright_red", "bright_green", "bright_magenta", "white")
_T = TypeVar("_T")
TITLES: Final = {"kod2": "Kohort, policy KOD2", "fifo-pod": "default scheduler, pod by pod"}


class SideCaller(Protocol):
    """A function that calls ``look`` in the thread of a side's event loop, where its state may be read safely."""

    async def __call__(self, look: Callable[[], _T]) -> _T:
        """Call ``look`` in the side's thread, and return its result."""
        ...


async def directly(look: Callable[[], _T]) -> _T:
    """Call ``look`` in the current thread, and return its result."""
    return look()


@dataclass(frozen=True, slots=True)
class DemoSide:
    """One of the two sides (clusters) of the demo, with the observer of its run.

    ``service`` is the running Kohort, and None on the side of the default scheduler; ``url`` is Kohort's address.
    ``ask`` calls a function in the thread of the side's event loop.
    """

    observer: RunObserver
    service: Service | None = None
    url: str = ""
    ask: SideCaller = directly


def console() -> Console:
    return Console(highlight=False)


async def follow(sides: Sequence[DemoSide], speed: float, *, live: bool) -> None:
    """Show the run until both sides have ended: with ``live`` and on a terminal a live view, else progress lines."""
    to = console()
    if live and to.is_terminal:
        with Live(console=to, auto_refresh=False, screen=True) as shown:
            while not await _ended(sides):
                shown.update(await frame(sides, speed, to.width), refresh=True)
                await asyncio.sleep(1 / FRAMES_PER_SECOND)
    else:
        await _lines(sides, to)


async def _ended(sides: Sequence[DemoSide]) -> bool:
    return all([await side.ask(partial(_has_ended, side.observer)) for side in sides])


def _has_ended(observer: RunObserver) -> bool:
    return observer.ended


async def _lines(sides: Sequence[DemoSide], to: Console) -> None:
    following = LINE_EVERY
    ended = False
    while not ended:
        await asyncio.sleep(1 / FRAMES_PER_SECOND)
        ended = await _ended(sides)
        elapsed = max(side.observer.elapsed for side in sides)
        if elapsed >= following or ended:
            following = elapsed + LINE_EVERY
            lines = [await side.ask(partial(_line, side)) for side in sides]
            to.print(f"{_clock(elapsed)}  " + "   |   ".join(lines), soft_wrap=True)


def _line(side: DemoSide) -> str:
    observer = side.observer
    jobs = observer.cluster.jobs
    running = sum(1 for job in jobs if computes(observer.cluster, job))
    ended = sum(1 for job in jobs if job.phase.ended)
    state = "done" if observer.ended else f"CPU at work {observer.at_work:4.0%}"
    half = sum(1 for _ in half_placed(side))
    waiting = len(jobs) - running - ended
    return (
        f"{observer.name}: {running} compute, {waiting} wait ({half} hold room half-placed), {ended} finished, "
        f"{'stands still' if observer.standstill else state}"
    )


def half_placed(side: DemoSide) -> Iterator[tuple[str, int, int]]:
    """Yield the jobs that hold room while some of their members have no node: (name, members bound, members asked for).

    A gang that is being bound, or whose pods are starting, is left out, because each of its members has a node.
    """
    planned: set[str] = set()
    if side.service is not None:
        snapshot = side.service.ledger.snapshot
        planned = {job.name for job in snapshot.running() if has_room(job, snapshot.gang(job.uid))}
    for name, held, asked in side.observer.stuck():
        if held < asked and name not in planned:
            yield name, held, asked


def has_room(job: Job, gang: Gang) -> bool:
    """Tell whether the plan has a node for each member of the gang's minimum."""
    return set(job.slots(min(gang.workers, job.min_workers), gang.ps)) <= set(gang.nodes)


# -- The functions below draw one frame of the live view. --------------------------------------------


async def frame(sides: Sequence[DemoSide], speed: float, width: int) -> RenderableType:
    """Return the whole live view of this moment. ``width``: the width of the terminal in columns."""
    elapsed = max(side.observer.elapsed for side in sides)
    subtitle = f"{_clock(elapsed)} of the clusters' time, {speed:g} times real speed"
    head = Text(f"kohort demo   {subtitle}   {sides[0].url}", style="bold")
    wide = sides if width >= NARROWEST else sides[:1]
    panels = [await side.ask(partial(_panel, side)) for side in wide]
    lines = [Text(await side.ask(partial(_line, side))) for side in sides[len(wide) :]]
    return Group(head, Columns(panels, equal=True, expand=True) if len(panels) > 1 else panels[0], *lines)


def _panel(side: DemoSide) -> Panel:
    observer = side.observer
    parts: list[RenderableType] = [_jobs(side), Text(), _nodes(observer)]
    if side.service is not None:
        parts += [Text(), _queue(side.service), Text(), _decisions(side.service, observer.cluster.started)]
    else:
        parts += [Text(), _halves(side)]
    finished = sum(1 for job in observer.cluster.jobs if job.phase.ended)
    title = f"{TITLES[observer.name]}: {finished} of {len(observer.cluster.trace.jobs)} finished"
    return Panel(Group(*parts), title=title, subtitle=f"CPU at work {observer.at_work:.0%}")


def _jobs(side: DemoSide) -> Table:
    table = _table("JOB", "MIN", "WORKERS NOW / MAX", "DONE", "STATE")
    cluster = side.observer.cluster
    for job in cluster.jobs:
        now = sum(1 for pod in cluster.world.store.pods_of(job.uid) if pod.works and pod.slot and pod.slot.role != PS)
        done = cluster.world.progress(job.uid).at(cluster.clock.now()) / job.spec.work_seconds
        bar = _bar(now, job.spec.min_workers, job.spec.max_workers, "green" if computes(cluster, job) else "red")
        share = 1.0 if job.phase.ended else min(done, 1.0)
        table.add_row(
            Text(job.spec.name, _colour(job)), str(job.spec.min_workers), bar, f"{share:.0%}", _state(side, job)
        )
    return table


def _bar(now: int, least: int, most: int, colour: str) -> Text:
    bar = Text()
    for place in range(most):
        bar.append("█" if place < now else "▒" if place < least else "░", colour if place < now else "dim")
    return bar.append(f" {now}/{most}")


def _state(side: DemoSide, job: JobObject) -> Text:
    cluster = side.observer.cluster
    if job.phase.ended:
        return Text(f"finished after {_clock((job.ended or 0.0) - job.created)}", "dim")
    if computes(cluster, job):
        return Text("computes", "green")
    held = sum(1 for pod in cluster.world.store.pods_of(job.uid) if pod.holds_room)
    if held:
        return Text(f"holds {held} of {len(job.spec.slots)}, computes nothing", "red")
    if side.service is not None:
        snapshot = side.service.ledger.snapshot
        known = next((j for j in snapshot.jobs.values() if j.key == job.key), None)
        if known is not None:
            return Text(job_view(snapshot, known, side.service.ledger.policy, cluster.clock.now()).state, "yellow")
    return Text("waits", "yellow")


def _nodes(observer: RunObserver) -> Table:
    """Return a table of the nodes: each pod is one letter, P for a ps and w for a worker, in its job's colour."""
    table = _table("NODE", "CPU", "PS (P) AND WORKERS (w) BY JOB")
    store = observer.cluster.world.store
    for node in store.nodes.values():
        pods = [pod for pod in store.pods.values() if pod.node == node.name and pod.holds_room]
        used = sum(pod.requests["cpu"] for pod in pods) / 1000
        table.add_row(node.name, f"{used:g}/{_cores(node):g}", _guests(observer, pods))
    return table


def _guests(observer: RunObserver, pods: Iterable[PodObject]) -> Text:
    jobs: dict[str, list[PodObject]] = {}
    for pod in pods:
        jobs.setdefault(pod.owner, []).append(pod)
    line = Text()
    for uid in sorted(jobs, key=lambda uid: jobs[uid][0].job):
        job = observer.cluster.world.store.jobs.get(uid)
        letters = sorted("P" if pod.slot and pod.slot.role == PS else "w" for pod in jobs[uid])
        line.append(f"{jobs[uid][0].job} {''.join(letters)}  ", _colour(job) if job else "dim")
    return line


def _queue(service: Service) -> RenderableType:
    snapshot, now = service.ledger.snapshot, service.clock.now()
    jobs = queue_view(snapshot, service.ledger.policy, now)
    if not jobs:
        return Text("queue: empty", "dim")
    table = _table("QUEUE", "WAITED", "NEEDS", "WHY")
    for job in jobs:
        needs = " ".join(f"{job.needs[name].quantity} {name}" for name in ("cpu", "memory") if name in job.needs)
        table.add_row(f"{job.position}. {job.name}", _clock(job.waited_seconds), needs, job.waits.reason)
    return table


def _decisions(service: Service, started: float) -> Group:
    views = decisions_view(service.ledger.journal.since(0), 0, MOST)
    latest = [view for view in views if view.action in SHOWN][-DECISIONS:]
    lines = [f"{_clock(view.at - started)}  {view.job.name if view.job else '-'}: {view.text}" for view in latest]
    return Group(Text("decisions", "bold"), *(Text(line, no_wrap=True, overflow="ellipsis") for line in lines))


def _halves(side: DemoSide) -> Group:
    lines = [f"{name}: {held} of {asked} placed, computes nothing" for name, held, asked in half_placed(side)]
    return Group(Text("half-placed", "bold"), *(Text(line, "red") for line in lines))


# -- The functions below print the table at the end. -------------------------------------------------


def print_table(endings: Sequence[RunEnding], horizon: float, to: Console | None = None) -> None:
    """Print the table that compares both sides, and footnotes on the jobs that did not finish."""
    to = to or console()
    table = _table("POLICY", "JOBS", "FINISHED", "MEAN JCT", "MAKESPAN", "UTILISATION", "NEVER FINISHED")
    for column in table.columns[1:]:
        column.justify = "right"
    for result in (ending.result for ending in endings):
        at_least = ">= " if result.never_finished else ""
        table.add_row(
            result.policy,
            str(len(result.jobs)),
            str(result.finished),
            f"{at_least}{_clock(result.mean_jct_seconds)}",
            f"{at_least}{_clock(result.makespan_seconds)}",
            f"{result.utilisation:.0%}",
            str(len(result.never_finished)),
        )
    to.print()
    to.print(table)
    for line in footnotes(endings, horizon):
        to.print(line, soft_wrap=True)


def footnotes(endings: Sequence[RunEnding], horizon: float) -> Iterator[str]:
    """Yield the lines below the table: what its figures mean, and which jobs are stuck."""
    yield "; ".join(f"{ending.result.policy}: {TITLES[ending.result.policy]}" for ending in endings) + "."
    yield "JCT: from a job's submission to its end. Utilisation: CPU of pods that compute, over the makespan."
    if any(ending.result.never_finished for ending in endings):
        yield f"A job that never finished counts until {_clock(horizon)}, where the demo ends: '>=' is a lower bound."
    for ending in endings:
        policy = ending.result.policy
        if ending.result.never_finished:
            yield f"{policy}: never finished: {', '.join(ending.result.never_finished)}"
        for name, held, asked in ending.stuck:
            yield f"{policy}: {name} is stuck half-placed: {held} of {asked} pods hold room, none computes"
        if ending.stood_still is not None:
            yield f"{policy}: nothing moved after {_clock(ending.stood_still)} at the latest"


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head)
    return table


def _colour(job: JobObject) -> str:
    digits = "".join(char for char in job.spec.name if char.isdigit())
    return COLOURS[int(digits or 0) % len(COLOURS)]


def _cores(node: Node) -> float:
    return node.allocatable["cpu"] / 1000


def _clock(seconds: float) -> str:
    """Return seconds as ``12:34`` (minutes and seconds) or ``1:02:03``."""
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
