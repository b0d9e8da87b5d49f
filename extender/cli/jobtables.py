"""Makes the texts that ``kohort describe`` and ``kohort explain`` print about one job and its history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import Group, RenderableType

from extender.cli.console import age, offered, short, table
from extender.cli.tables import bounded, expected, inputs, text, weight
from extender.page.formatting import because
from extender.present.views.decisions import StepView
from extender.present.views.explain import ExplainView
from extender.present.views.jobs import JobDetail, JobView
from policy.answers.explanation import NodeRoom
from policy.cluster.reasons import without_advice
from policy.cluster.words import and_more, counted

CLOSEST_NODES: Final = 20
MOST_AHEAD: Final = 10
MOST_MEMBERS: Final = 20
MOST_STEPS: Final = 10
HELPS: Final = "what helps"  # HELPS is the heading of the general advice for the reason why a job waits.
# ADMITS is the heading of a change that would let the job start, as a trial on a copy of the state has shown.
ADMITS: Final = "would admit"
WIDE: Final = "-o wide"


def describe(job: ExplainView, *, wide: bool = False) -> RenderableType:
    """Return the answer of ``kohort describe`` for printing: the job's facts, roles, members and whole history."""
    roles = table(
        ("ROLE", "REPLICAS", "EACH ASKS FOR"),
        ((role.role, str(role.replicas), short(role.requests)) for role in job.roles),
    )
    helps = [(HELPS, without_advice(job.mend))] if job.waits is not None else []
    told = _lines((*_facts(job), *_reason(job), *helps))
    return Group(*told, text(""), roles, *_members(job), *_history(job.history, wide=wide))


def explain(job: ExplainView, *, wide: bool = False) -> RenderableType:
    """Return the answer of ``kohort explain`` about a job, for printing.

    It has the job's state, its reason, what helps, the members, what each node lacks for the gang, and the history.
    Without ``wide`` only the first entries of each list are shown.
    """
    members, rooms = _members(job, None if wide else MOST_MEMBERS), _rooms(job, None if wide else CLOSEST_NODES)
    return Group(
        *_lines((*_facts(job), *_why(job, None if wide else MOST_AHEAD))), *members, *rooms,
        *_history(job.history, None if wide else MOST_STEPS, wide=wide),
    )  # fmt: skip


def _lines(told: Sequence[tuple[str, str]] | Iterator[tuple[str, str]]) -> Iterator[RenderableType]:
    return (text(f"{name:12}{said}") for name, said in told if said)


def _facts(job: ExplainView) -> Iterator[tuple[str, str]]:
    yield "job", f"{job.key} ({job.kind})"
    yield "state", job.state
    if bounded(job):
        bounds = f"{job.min_workers} to {job.max_workers} allowed"
        yield "workers", f"{job.workers} given, {job.replicas} asked for, {bounds}"
    elif job.workers:
        yield "workers", f"{job.workers} given"
    yield "note", job.note
    yield "weight", "" if job.weight is None else weight(job.weight)
    yield "waited", "" if job.waited_seconds is None else age(job.waited_seconds)


def _why(job: ExplainView, most_ahead: int | None) -> Iterator[tuple[str, str]]:
    yield "needs", ", ".join(f"{counted(need.members, need.role)} of {short(need.requests)}" for need in job.needs)
    yield from _reason(job)
    yield "room", job.arithmetic
    if job.expected is not None:
        yield "expected", f"{expected(job.expected)}: {without_advice(job.expected.basis)}"
    yield "pods", f"missing: {job.missing_pods}" if job.missing_pods else ""
    yield "binding", f"once each member is checked: {job.checked_singly}" if job.checked_singly else ""
    for ahead in job.ahead[:most_ahead]:
        yield "ahead", f"{ahead.job}: {ahead.why}" if ahead.why else ahead.job
    if most_ahead is not None and len(job.ahead) > most_ahead:
        yield "ahead", and_more(len(job.ahead) - most_ahead, shown_by=WIDE)
    yield "shrunk", f"for {job.shrunk_for}" if job.shrunk_for else ""
    yield "freeing", ", ".join(job.waits_for)
    if job.running is not None:
        yield "placed", job.running.placement
        yield "traffic", job.running.traffic
        yield "growth", job.running.growth
    yield "schedule", "" if job.schedule is None else job.schedule.text
    for held in job.held:
        yield "held", f"{short(held.requests)} on {held.node} by {held.pod} of {held.job}, which has finished"
    yield HELPS, without_advice(job.mend)
    for change in job.unblock or ():
        yield ADMITS, change.text


def _reason(job: JobView) -> Iterator[tuple[str, str]]:
    """Yield the rows (head, text) on why the job waits, and on the writes that the API server refuses for it."""
    if job.waits is not None:
        yield "reason", job.waits.reason
        yield "", without_advice(job.waits.text)
        yield "detail", job.waits.detail
    for one in job.refused:
        yield "refused", one.text


def _members(job: JobDetail, most: int | None = None) -> Iterator[RenderableType]:
    """Yield a table of at most ``most`` members (None: all), and a line that counts the members that are left out.

    Where members are left out, unbound members are shown first.
    """
    members = job.members
    if most is not None and len(members) > most:
        members = tuple(sorted(members, key=lambda one: one.state == "bound"))[:most]
    if members:
        yield text("")
        rows = ((f"{m.role}-{m.index}", m.pod or "-", m.node or "-", m.state) for m in members)
        yield table(("MEMBER", "POD", "NODE", "STATE"), rows)
    if len(members) < len(job.members):
        yield text(and_more(len(job.members) - len(members), shown_by=WIDE))


def _rooms(job: ExplainView, most: int | None) -> Iterator[RenderableType]:
    """Yield a table of at most ``most`` nodes (None: all): what is free on each, and what it lacks for the gang.

    A line counts the nodes that are left out.
    """
    if not job.nodes:
        return
    asked = {name for need in job.needs for name in need.requests if name != "pods"}
    rows = (
        (
            node.node,
            offered(node.free, {}, asked | node.missing.keys()),
            short(node.missing, pods=True),
            node.refused or node.avoided or _promised(node) or "-",
        )
        for node in job.nodes[:most]
    )
    yield text("")
    yield table(("NODE", "FREE", "LACKS FOR THE GANG", "NO CHOICE BECAUSE"), rows)
    if most is not None and len(job.nodes) > most:
        yield text(and_more(len(job.nodes) - most, shown_by=WIDE))


def _promised(node: NodeRoom) -> str:
    """Return a text that names the pods for which another scheduler keeps room on the node; empty if there are none."""
    return f"room is kept for {', '.join(node.promised)}" if node.promised else ""


def _history(steps: Sequence[StepView], most: int | None = None, *, wide: bool) -> Iterator[RenderableType]:
    """Yield a table of the newest ``most`` steps (None: all), with all decisions of one step in one row.

    wide: add a column with the figures from which each decision was made.
    """
    older = 0 if most is None else max(0, len(steps) - most)
    if steps:
        yield text("")
        heads = ("STEP", "TIME", "BECAUSE", "WHAT", "INPUTS")
        yield table(heads if wide else heads[:4], (row[: len(heads) if wide else 4] for row in _steps(steps[older:])))
    if older:
        yield text(and_more(older, " that are older", "kohort describe"))


def _steps(steps: Sequence[StepView]) -> Iterator[tuple[str, ...]]:
    for step in steps:
        at = datetime.fromtimestamp(step.at, UTC).strftime("%H:%M:%SZ")
        yield str(step.step), at, because(step.because), "; ".join(step.told), inputs(step.inputs)
