"""Makes the tables of the queue, jobs, nodes, plans, decisions and the answer of what-if. ``wide`` adds columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from extender.cli.console import age, short, table, why
from extender.cli.noderows import node_row
from extender.page.formatting import because
from extender.present.views.cluster import NodesView, PlansView, PlanView
from extender.present.views.decisions import DecisionsView, DecisionView
from extender.present.views.jobs import (
    InvalidJob,
    JobsView,
    JobView,
    QueuedJob,
    QueueView,
    UnplacedMembers,
)
from extender.present.views.refused import RefusedView
from extender.present.views.whatif import ChangedJobView, JobStatusView, WhatIfView
from policy.answers.explanation import HeldRoom, Start
from policy.cluster.job import WORKER
from policy.cluster.words import and_more, counted, visible

MOST_MOVED: Final = 5
RESIZED: Final = ("running", "repairing", "migrating")
# These columns are left out on a narrow terminal, in this order.
LEAST_OF_JOBS: Final = ("GATED", "ASKED", "WEIGHT", "KIND", "WAITED")
LEAST_OF_QUEUE: Final = ("GATED", "WEIGHT", "MEMBERS", "BEHIND", "WAITED", "NEEDS", "BASIS")
LEAST_OF_NODES: Final = ("OTHERS", "ALLOCATABLE", "FAILURES")
LEAST_OF_PLANS: Final = ("ATTEMPTS", "IN FLIGHT", "PLAN", "AT BARRIER", "DEADLINE", "ON BEHALF OF")
LEAST_OF_DECISIONS: Final = ("STEP", "ACTION", "POD")
HELD_HELP: Final = "what helps: set spec.runPolicy.cleanPodPolicy: Running on these jobs, or delete them"


def text(line: str) -> Text:
    """Return the line as a Text of one line, with a mark in place of characters that cannot be seen."""
    return Text(visible(line))


def _of(within: str) -> str:
    return f" of namespace {within}" if within else ""


def jobs(view: JobsView, *, wide: bool = False, within: str = "") -> RenderableType:
    """Return a table with one row per job.

    within: the namespace that the user asked for; empty: all namespaces.
    """
    if not view.jobs:
        return text(f"no job{_of(within)} has opted in; a job opts in by spec.schedulerName of its pods")
    heads = ("NAMESPACE", "NAME", "KIND", "WORKERS", "STATE", "WAITED", "WHY")
    extra = ("WEIGHT", "ASKED", "GATED", "NOTE", "REFUSED") if wide else ()
    return table((*heads, *extra), (_job(job, wide=wide) for job in view.jobs), LEAST_OF_JOBS)


def _job(job: JobView, *, wide: bool) -> tuple[str, ...]:
    row = (job.namespace, job.name, job.kind, _workers(job), job.state, age(job.waited_seconds), why(job.waits))
    asked = "-" if job.state == "invalid" else str(job.replicas)
    extra = (weight(job.weight), asked, str(job.gated_pods), job.note or "-", refused(job.refused))
    return (*row, *extra) if wide else row


def refused(writes: Sequence[RefusedView]) -> str:
    """Return the writes that the API server refuses for the job, with its messages, in one line; "-" for none."""
    return "; ".join(one.text for one in writes) or "-"


def bounded(job: JobView) -> bool:
    """Tell whether the job's bounds are known.

    The bounds of a malformed job, and of a job that is scaled to 0, cannot be read.
    """
    return job.state != "invalid" and job.max_workers > 0


def _workers(job: JobView) -> str:
    """Return the number of workers that the policy has given the job, with the job's bounds: ``3 (1-4)``.

    For a running job that is being resized, the number that its object still states comes first: ``2 → 3 (1-4)``.
    """
    if bounded(job):
        resized = job.elastic and job.state in RESIZED and job.replicas != job.workers
        before = f"{job.replicas} → " if resized else ""
        return f"{before}{job.workers} ({job.min_workers}-{job.max_workers})"
    return str(job.workers) if job.workers else "-"


def weight(value: float | None) -> str:
    """Return a job's weight or utility with four decimals, or "-" if the policy computes none."""
    return "-" if value is None else f"{value:.4f}"


def queue(view: QueueView, *, wide: bool = False, within: str = "") -> RenderableType:
    """Return a table with one row per waiting job, in the policy's order.

    within: the namespace that the user asked for; empty: all namespaces.
    """
    if not view.jobs:
        return Group(text(f"no job{_of(within)} waits"), *_below(view))
    heads = ("#", "NAMESPACE", "NAME", "WEIGHT", "WAITED", "MEMBERS", "NEEDS", "EXPECTED", "WHY")
    extra = ("GATED", "BASIS", "BEHIND", "REFUSED") if wide else ()
    rows = (_queued(job, wide=wide) for job in view.jobs)
    return Group(table((*heads, *extra), rows, LEAST_OF_QUEUE), *_below(view))


def _below(view: QueueView) -> Iterator[RenderableType]:
    """Yield the tables that are printed below the queue: unplaced members, malformed jobs, and room that pods of
    finished jobs hold.
    """
    yield from _unplaced(view.unplaced)
    yield from _invalid(view.invalid)
    yield from _held(view.held)


def _unplaced(jobs: Sequence[UnplacedMembers]) -> Iterator[RenderableType]:
    """Yield a table of running jobs with members that have no node yet.

    These jobs are not in the queue, because they are admitted, but waiting jobs may wait for them.
    """
    if jobs:
        yield text("")
        rows = ((job.key, job.kind, job.detail) for job in jobs)
        yield table(("RUNNING JOB", "KIND", "MEMBERS THAT WAIT FOR ROOM"), rows)


def _queued(job: QueuedJob, *, wide: bool) -> tuple[str, ...]:
    row = (
        str(job.position), job.namespace, job.name, weight(job.weight),
        age(job.waited_seconds) + (" starving" if job.starving else ""),
        str(job.members), short(job.needs), expected(job.expected), why(job.waits),
    )  # fmt: skip
    basis = job.expected.basis if job.expected is not None else "-"
    return (*row, str(job.gated_pods), basis, job.waits.behind or "-", refused(job.refused)) if wide else row


def expected(start: Start | None) -> str:
    """Return when the job may start: ``in 3m12s``, ``now`` or ``unknown``; "-" if no start was computed (None)."""
    if start is None:
        return "-"
    if start.in_seconds is None:
        return "unknown"
    return f"in {age(start.in_seconds)}" if start.in_seconds >= 1 else "now"


def _invalid(jobs: Sequence[InvalidJob]) -> Iterator[RenderableType]:
    """Yield a table of malformed jobs, which do not queue, with what is wrong with each."""
    if jobs:
        yield text("")
        rows = ((job.key, job.kind, job.detail) for job in jobs)
        yield table(("MALFORMED JOB", "KIND", "WHY IT DOES NOT QUEUE"), rows)


def _held(rooms: Sequence[HeldRoom]) -> Iterator[RenderableType]:
    """Yield a table of resources that pods of finished jobs hold, and how to free them."""
    if rooms:
        yield text("")
        rows = ((held.job, held.pod, held.node, short(held.requests)) for held in rooms)
        yield table(("HELD BY FINISHED JOB", "POD", "NODE", "ROOM"), rows)
        yield text(HELD_HELP)


def nodes(view: NodesView, *, wide: bool = False) -> RenderableType:
    """Return a table with one row per node, with each job's members on it."""
    heads = ("NODE", "STATE", "ALLOCATABLE", "FREE", "OTHERS", "FAILURES", "MEMBERS")
    rows = (node_row(node, wide=wide) for node in view.nodes)
    return Group(table((*heads, "PODS") if wide else heads, rows, LEAST_OF_NODES), *_held(view.held))


def plans(view: PlansView, *, wide: bool = False, within: str = "") -> RenderableType:
    """Return a table with one row per plan.

    within: the namespace that the user asked for; empty: all namespaces.
    """
    if not view.plans:
        return text(f"no gang{_of(within)} has a plan")
    heads = ("NAMESPACE", "NAME", "PLAN", "STATE", "WORKERS", "NODES", "WAITS FOR", "AT BARRIER", "DEADLINE")
    extra = ("IN FLIGHT", "ATTEMPTS", "ON BEHALF OF") if wide else ()
    return table((*heads, *extra), (_plan(plan, wide=wide) for plan in view.plans), LEAST_OF_PLANS)


def _plan(plan: PlanView, *, wide: bool) -> tuple[str, ...]:
    row = (
        plan.namespace,
        plan.name,
        plan.plan or "-",
        plan.state,
        str(plan.workers),
        ", ".join(f"{node}: {count}" for node, count in _counts(plan.nodes.values())),
        counted(len(plan.waits_for), "pod") if plan.waits_for else "-",
        str(len(plan.at_barrier)),
        age(plan.deadline_in_seconds),
    )
    return (*row, str(plan.in_flight), str(plan.attempts), plan.on_behalf_of or "-") if wide else row


def _counts(names: Iterable[str]) -> list[tuple[str, int]]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return sorted(counts.items())


def decisions(view: DecisionsView, *, wide: bool = False, within: str = "") -> RenderableType:
    """Return a table with one row per decision.

    within: the namespace that the user asked for; empty: all namespaces.
    """
    if not view.decisions:
        return text(f"no decision about a job{_of(within)} is known; the list begins with the start of the service")
    heads = ("#", "TIME", "ACTION", "JOB", "POD", "WHAT")
    extra = ("STEP", "BECAUSE", "INPUTS") if wide else ()
    return table((*heads, *extra), (_decision(entry, wide=wide) for entry in view.decisions), LEAST_OF_DECISIONS)


def _decision(entry: DecisionView, *, wide: bool) -> tuple[str, ...]:
    at = datetime.fromtimestamp(entry.at, UTC).strftime("%H:%M:%SZ")
    job = entry.job.key if entry.job else "-"
    row = (str(entry.sequence), at, entry.action, job, entry.pod or "-", entry.text)
    return (*row, str(entry.generation), because(entry.cause), inputs(entry.inputs)) if wide else row


def decision_line(entry: DecisionView, *, wide: bool) -> Text:
    """Return one decision as a line of text: the cells of its row in the table, separated by spaces."""
    return text("  ".join(_decision(entry, wide=wide)))


def inputs(found: dict[str, str]) -> str:
    """Return the figures from which a decision was made, in one line; "-" for none."""
    return "; ".join(f"{name} {value}" for name, value in found.items()) or "-"


def what_if(view: WhatIfView, *, wide: bool = False) -> RenderableType:
    """Return a table with one row per job whose state, place or nodes would change.

    The column QUEUE is left out if none of these jobs is in the queue, now or after the change. Of the jobs whose only
    change is another place in the queue, the first few are shown; wide shows all.
    """
    if not view.jobs:
        return text(f"nothing would change (policy {view.policy})")
    queued = any(standing.position for job in view.jobs for standing in (job.before, job.after) if standing)
    heads = ("NAMESPACE", "NAME", "NOW", "WOULD BE", *(("QUEUE",) if queued else ()), "MEMBERS", "WHY")
    hidden = [] if wide else [job for job in view.jobs if _only_moved_in_queue(job)][MOST_MOVED:]
    left_out = {job.uid for job in hidden}
    rows = (_moved(job, queued=queued, wide=wide) for job in view.jobs if job.uid not in left_out)
    told = table((*heads, "PLACES") if wide else heads, rows)
    if not hidden:
        return told
    return Group(told, text(and_more(len(hidden), " that would only wait at another place in the queue", "-o wide")))


def _moved(job: ChangedJobView, *, queued: bool, wide: bool) -> tuple[str, ...]:
    return (
        job.namespace,
        job.name,
        "-" if job.before is None else _status(job.before),
        _status(job.after),
        *((_queue_change(job),) if queued else ()),
        ", ".join(f"{node}: {count}" for node, count in job.after.nodes.items()) or "-",
        _why_changed(job),
        *((", ".join(f"{m} {n}" for m, n in job.after.members.items()) or "-",) if wide else ()),
    )


def _only_moved_in_queue(job: ChangedJobView) -> bool:
    before, after = job.before, job.after
    if before is None or before.waits is None or after.waits is None or before.position == after.position:
        return False
    return (before.state, before.waits.reason) == (after.state, after.waits.reason)


def _queue_change(job: ChangedJobView) -> str:
    """Return the places in the queue now and then: ``1 → 2``, ``- → 2`` for a job that is not in the queue now.

    A place that does not change is shown once: ``2``.
    """
    was, would = (str(one.position) if one and one.position else "-" for one in (job.before, job.after))
    return was if was == would else f"{was} → {would}"


def _why_changed(job: ChangedJobView) -> str:
    if job.after.waits is None and job.before is not None and job.after.state == "repairing":
        lost = sum(job.before.nodes.values()) - sum(job.after.nodes.values())
        return f"{counted(lost, 'member')} without a node" if lost > 0 else "-"
    told, ahead = why(job.after.waits), job.after.ahead
    # The job ahead is not added to the text if `why` has named the same job in it already.
    named = job.after.waits is not None and job.after.waits.behind == ahead
    return f"{told}, directly behind {ahead}" if ahead and not named else told


def _status(standing: JobStatusView) -> str:
    return f"{standing.state}, {counted(standing.workers, WORKER)}" if standing.workers else standing.state
