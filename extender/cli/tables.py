"""Shows views as tables for people; JSON and YAML are the views themselves.

Texts of a cluster's users are shown as text: no control characters, no markup.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import yaml
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from extender.present.views import (
    Amounts,
    DecisionsView,
    ExplainView,
    Guest,
    HeldView,
    JobsView,
    JobView,
    NodeRoomView,
    NodesView,
    PlansView,
    QueueView,
    StandingView,
    Waits,
    WhatIfView,
)

PIPE_WIDTH: Final = 400
CLOSEST_NODES: Final = 20
MOST_AHEAD: Final = 10
HELD_MEND: Final = "mend: set spec.runPolicy.cleanPodPolicy: Running on these jobs, or delete them"
SHOWN: Final = ("cpu", "memory", "nvidia.com/gpu")
_BINARY: Final = (("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def out() -> Console:
    """The console for answers: as wide as the terminal; wide enough for every line where it is a pipe."""
    return Console(markup=False, highlight=False, emoji=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def err() -> Console:
    """The console for warnings and errors."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)


def as_data(view: BaseModel, kind: str) -> str:
    """The view as JSON or YAML."""
    data = view.model_dump(mode="json")
    if kind == "yaml":
        return yaml.safe_dump(data, sort_keys=False, allow_unicode=False).rstrip()
    return json.dumps(data, indent=2)


def clean(text: str) -> str:
    """The text without what would steer a terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)


def show_jobs(view: JobsView, to: Console) -> None:
    """One line a job."""
    if not view.jobs:
        to.print("no job has opted in (spec.schedulerName of its pods)")
        return
    rows = ((*_head(job), _bounds(job), job.state, _age(job.waited_seconds), _why(job.waits)) for job in view.jobs)
    _table(to, ("NAMESPACE", "NAME", "KIND", "WORKERS", "STATE", "WAITED", "WHY"), rows)


def _head(job: JobView) -> tuple[str, str, str]:
    return job.namespace, job.name, job.kind


def _bounds(job: JobView) -> str:
    """``now (min-max)``."""
    return f"{job.workers} ({job.min_workers}-{job.max_workers})"


def show_queue(view: QueueView, to: Console) -> None:
    """One line a waiting job, in the policy's order."""
    rows = [
        (
            str(job.position),
            job.namespace,
            job.name,
            "-" if job.weight is None else f"{job.weight:.4f}",
            _age(job.waited_seconds) + (" starving" if job.starving else ""),
            str(job.members),
            _short(job.needs),
            str(job.gated_pods),
            _why(job.waits),
        )
        for job in view.jobs
    ]
    if rows:
        _table(to, ("#", "NAMESPACE", "NAME", "WEIGHT", "WAITED", "MEMBERS", "NEEDS", "GATED", "WHY"), rows)
    else:
        to.print("no job waits")
    _show_held(view.held, to)


def _show_held(rooms: Sequence[HeldView], to: Console) -> None:
    """Room that looks free to nobody and works for nobody, and how to get it back."""
    if not rooms:
        return
    to.print()
    rows = ((held.job, held.pod, held.node, _short(held.requests)) for held in rooms)
    _table(to, ("HELD BY FINISHED JOB", "POD", "NODE", "ROOM"), rows)
    to.print(HELD_MEND)


def show_nodes(view: NodesView, to: Console) -> None:
    """One line a node, with each job's members on it."""
    rows = (
        (
            node.name,
            "ready" if node.ready and not node.unschedulable else "cordoned" if node.ready else "not ready",
            _short(node.allocatable),
            _short(node.free, node.allocatable),
            str(node.other_pods),
            ", ".join(_by_job((_guest_of(guest), guest.role) for guest in node.members)) or "-",
        )
        for node in view.nodes
    )
    _table(to, ("NODE", "STATE", "ALLOCATABLE", "FREE", "OTHERS", "MEMBERS"), rows)
    _show_held(view.held, to)


def _guest_of(guest: Guest) -> str:
    return f"{guest.job} (finished)" if guest.finished else guest.job


def _by_job(members: Iterable[tuple[str, str]]) -> list[str]:
    """``team/job: 1 ps, 3 worker`` for each job."""
    jobs: dict[str, dict[str, int]] = {}
    for job, role in members:
        roles = jobs.setdefault(job, {})
        roles[role] = roles.get(role, 0) + 1
    return [f"{job} " + "+".join(f"{count} {role}" for role, count in roles.items()) for job, roles in jobs.items()]


def show_plans(view: PlansView, to: Console) -> None:
    """One line a plan."""
    if not view.plans:
        to.print("no gang has a plan")
        return
    rows = (
        (
            plan.namespace,
            plan.name,
            plan.plan or "-",
            plan.state,
            str(plan.workers),
            ", ".join(f"{node}: {count}" for node, count in _counts(plan.nodes.values())),
            f"{len(plan.waits_for)} pods" if plan.waits_for else "-",
            str(len(plan.at_barrier)),
            "-" if plan.deadline_in_seconds is None else _age(plan.deadline_in_seconds),
        )
        for plan in view.plans
    )
    heads = ("NAMESPACE", "NAME", "PLAN", "STATE", "WORKERS", "NODES", "WAITS FOR", "AT BARRIER", "DEADLINE")
    _table(to, heads, rows)


def _counts(names: Iterable[str]) -> list[tuple[str, int]]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return sorted(counts.items())


def show_decisions(view: DecisionsView, to: Console) -> None:
    """One line an entry."""
    rows = (
        (
            str(entry.sequence),
            datetime.fromtimestamp(entry.at, UTC).strftime("%H:%M:%SZ"),
            entry.action,
            entry.job.key if entry.job else "-",
            entry.pod or "-",
            entry.text,
        )
        for entry in view.decisions
    )
    _table(to, ("#", "TIME", "ACTION", "JOB", "POD", "WHAT"), rows)


def show_what_if(view: WhatIfView, to: Console) -> None:
    """One line for each job that would stand elsewhere."""
    if not view.jobs:
        to.print(f"nothing would change (policy {view.policy})")
        return
    rows = (
        (
            job.namespace,
            job.name,
            "-" if job.before is None else _stands(job.before),
            _stands(job.after),
            ", ".join(f"{node}: {count}" for node, count in job.after.nodes.items()) or "-",
            _why(job.after.waits),
        )
        for job in view.jobs
    )
    _table(to, ("NAMESPACE", "NAME", "NOW", "WOULD BE", "MEMBERS", "WHY"), rows)


def _stands(standing: StandingView) -> str:
    return f"{standing.state}, {standing.workers} workers" if standing.workers else standing.state


def show_explanation(job: ExplainView, to: Console) -> None:
    """Where the job stands, why, what mends it; each member, and what each node lacks for the gang."""
    for name, text in _story(job):
        if text:
            to.print(f"{name:10}{clean(text)}")
    if job.members:
        to.print()
        rows = ((f"{m.role}-{m.index}", m.pod or "-", m.node or "-", m.state) for m in job.members)
        _table(to, ("MEMBER", "POD", "NODE", "STATE"), rows)
    if job.nodes:
        to.print()
        _table(to, ("NODE", "FREE", "LACKS FOR THE GANG", "NO CHOICE BECAUSE"), _rooms(job.nodes))


def _story(job: ExplainView) -> Iterator[tuple[str, str]]:
    yield "job", f"{job.key} ({job.kind})"
    yield "state", job.state
    yield "workers", f"{job.workers} given, {job.replicas} asked for, {job.min_workers} to {job.max_workers} allowed"
    yield "note", job.note
    yield "weight", "" if job.weight is None else f"{job.weight:.4f}"
    yield "waited", "" if job.waited_seconds is None else _age(job.waited_seconds)
    yield "needs", ", ".join(f"{need.members} {need.role} of {_short(need.requests)}" for need in job.needs)
    if job.waits is not None:
        yield "reason", job.waits.reason
        yield "", job.waits.text
        yield "detail", job.waits.detail
    yield "pods", f"missing: {job.missing_pods}" if job.missing_pods else ""
    for ahead in job.ahead[:MOST_AHEAD]:
        yield "ahead", f"{ahead.job}: {ahead.why}" if ahead.why else ahead.job
    if len(job.ahead) > MOST_AHEAD:
        yield "ahead", f"and {len(job.ahead) - MOST_AHEAD} more; -o json shows all"
    yield "shrunk", f"for {job.shrunk_for}" if job.shrunk_for else ""
    yield "freeing", ", ".join(job.waits_for)
    for held in job.held:
        yield "held", f"{_short(held.requests)} on {held.node} by {held.pod} of {held.job}, which has finished"
    yield "mend", job.mend
    for change in job.unblock or ():
        yield "would do", change.text


def _rooms(nodes: Sequence[NodeRoomView]) -> Iterator[tuple[str, str, str, str]]:
    """The nodes that come closest, nearest first."""
    ordered = sorted(nodes, key=lambda node: (bool(node.refused), _lack(node), node.node))
    for node in ordered[:CLOSEST_NODES]:
        yield node.node, _short(node.free), _short(node.missing), node.refused or "-"
    if len(ordered) > CLOSEST_NODES:
        yield f"and {len(ordered) - CLOSEST_NODES} more", "", "", "-o json shows all"


def _lack(node: NodeRoomView) -> int:
    return node.missing["cpu"].exact if "cpu" in node.missing else 0


def _why(waits: Waits | None) -> str:
    if waits is None:
        return "-"
    return f"{waits.reason} ({waits.detail})" if waits.detail else waits.reason


def _age(seconds: float | None) -> str:
    """``42s``, ``3m12s``, ``2h05m``."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    if abs(whole) < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"


def _short(amounts: Amounts, like: Amounts | None = None) -> str:
    """CPU, memory and GPU, memory rounded: people compare, they do not add up."""
    shown = [name for name in SHOWN if (like or amounts).get(name) or (name in amounts and name != SHOWN[2])]
    return " ".join(_rounded(name, amounts[name].exact) for name in shown if name in amounts) or "-"


def _rounded(name: str, amount: int) -> str:
    if name == "cpu":
        return f"{amount / 1000:g} cpu"
    if name == "memory":
        suffix, size = next(((s, n) for s, n in _BINARY if abs(amount) >= n), ("B", 1))
        return f"{amount / size:.3g}{suffix}"
    return f"{amount} gpu"


def _table(to: Console, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*(clean(cell) for cell in row))
    to.print(table)
