"""Makes the view of ``kohort top``: how full the nodes are, running jobs as bars, and the first jobs of the queue."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType

from extender.cli.console import age, offered, short, table, why
from extender.cli.noderows import by_job
from extender.cli.tables import text
from extender.present.views.base import View
from extender.present.views.cluster import NodesView, NodeView
from extender.present.views.jobs import JobsView, JobView, QueuedJob, QueueView
from policy.cluster.words import and_more, counted

BAR = 24  # BAR is the number of characters of a bar that stands for all of a node's cpu or all of a job's workers.
MOST = 20  # MOST is the largest number of rows in each table of the view.
BARS = ("", "WORKERS", "NEEDS")  # BARS are the heads of columns that are left out on a narrow terminal, in this order.


class TopView(View):
    """The nodes, jobs and queue that ``kohort top`` shows at one moment."""

    nodes: NodesView
    jobs: JobsView
    queue: QueueView


def overview(nodes: NodesView, jobs: JobsView, queue: QueueView, *, within: str = "") -> TopView:
    """Return the three views as one; with ``within``, only the jobs of that namespace."""
    if within:
        jobs = jobs.model_copy(update={"jobs": tuple(one for one in jobs.jobs if one.namespace == within)})
        queue = queue.model_copy(update={"jobs": tuple(one for one in queue.jobs if one.namespace == within)})
    return TopView(nodes=nodes, jobs=jobs, queue=queue)


def draw(view: TopView, *, wide: bool = False) -> RenderableType:
    """Return the view for printing: totals, nodes, running jobs and the queue; without ``wide`` at most MOST rows each.

    The fullest nodes come first.
    """
    most = None if wide else MOST
    running = [job for job in view.jobs.jobs if job.workers and job.state != "completed"]
    fullest = sorted(view.nodes.nodes, key=lambda node: (-used(node), node.name))
    return Group(
        text(f"{counted(len(fullest), 'node')}, cpu {_total(view.nodes):.0%} requested; "
             f"{counted(len(running), 'running job')}, "
             f"{counted(len(view.queue.jobs), 'waiting job')}"),
        *(text(f"warning: {warning}") for warning in view.queue.warnings),
        text(""), table(("NODE", "", "CPU", "FREE", "MEMBERS"), (_node(node) for node in fullest[:most]), BARS),
        *_more(len(fullest), most),
        *_part(("JOB", "STATE", "WORKERS", "MIN-MAX"), [_job(job) for job in running], most),
        *_part(("#", "WAITS", "FOR", "NEEDS", "WHY"), [_waiting(job) for job in view.queue.jobs], most),
    )  # fmt: skip


def _part(heads: Sequence[str], rows: Sequence[Sequence[str]], most: int | None) -> list[RenderableType]:
    """Return a blank line, a table of at most ``most`` rows (None: all), and a line that counts the rows that are left
    out.

    The result is an empty list if there are no rows.
    """
    return [text(""), table(heads, rows[:most], BARS), *_more(len(rows), most)] if rows else []


def _waiting(job: QueuedJob) -> tuple[str, ...]:
    return str(job.position), job.key, age(job.waited_seconds), short(job.needs), why(job.waits)


def _more(count: int, most: int | None) -> list[RenderableType]:
    return [text(and_more(count - most, shown_by="-o wide"))] if most is not None and count > most else []


def used(node: NodeView) -> float:
    """Return the share of the node's cpu that pods request, from 0 to 1."""
    whole = node.allocatable["cpu"].exact if "cpu" in node.allocatable else 0
    free = node.free["cpu"].exact if "cpu" in node.free else 0
    return 1 - free / whole if whole else 0.0


def _total(nodes: NodesView) -> float:
    whole = sum(node.allocatable["cpu"].exact for node in nodes.nodes if "cpu" in node.allocatable)
    free = sum(node.free["cpu"].exact for node in nodes.nodes if "cpu" in node.free)
    return 1 - free / whole if whole else 0.0


def _node(node: NodeView) -> tuple[str, ...]:
    members = ", ".join(by_job((guest.job, guest.role) for guest in node.members)) or "-"
    share = used(node)
    return node.name, _bar(share, 1.0), f"{share:.0%}", offered(node.free, node.allocatable), members


def _job(job: JobView) -> tuple[str, ...]:
    """Return the job's row: name, state, bar and numbers.

    The whole bar stands for the job's maximum of workers; it is filled up to the present workers, and has a mark at the
    minimum.
    """
    bar = list(_bar(job.workers, job.max_workers))
    at = min(BAR - 1, max(0, round(BAR * job.min_workers / max(1, job.max_workers)) - 1))
    bar[at] = "|"
    return job.key, job.state, "".join(bar), f"{job.workers} ({job.min_workers}-{job.max_workers})"


def _bar(value: float, most: float) -> str:
    full = max(0, min(BAR, round(BAR * value / most))) if most else 0
    return "#" * full + "." * (BAR - full)
