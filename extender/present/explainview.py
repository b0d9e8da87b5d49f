"""The view of one job for GET /v1/explain: why it waits or why it runs where it does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace

from extender.kube.jobkinds import KINDS
from extender.present.historyview import history_view
from extender.present.jobviews import expected_view, job_detail
from extender.present.views.amounts import amounts
from extender.present.views.cluster import HeldView
from extender.present.views.explain import (
    AheadView,
    ChangeView,
    DriftView,
    ExplainView,
    NeedView,
    NodeRoomView,
    RunningView,
)
from extender.state.journal import Entry
from policy.answers.explain import Explanation, HeldRoom, NodeRoom, explain
from policy.answers.foresee import foresee
from policy.answers.standing import RIGID, grounds
from policy.answers.unblock import unblock
from policy.cluster.model import Job
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Drift, Policy


def explain_view(
    snapshot: Snapshot, job: Job, policy: Policy, now: float, entries: Iterable[Entry] = ()
) -> ExplainView:
    """Return the job with its needs, what each node lacks for it, the jobs ahead, what helps, and its history.

    entries: the journal, from which the history is made. A job that the snapshot does not know has no explanation.
    """
    told = explain(snapshot, job.uid, policy, now)
    base = dict(job_detail(snapshot, job, policy, now))
    if told is None:
        return ExplainView(**base)
    story = _reasons_of(told, job) | {"schedule": None if told.drift is None else _drift(told.drift, now)}
    return ExplainView(**base, **story, history=history_view(entries, job))


def slow_fields(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> dict[str, object]:
    """Return the fields of ExplainView that need dozens of trial decisions on copies of the snapshot.

    They say what would admit the job and when it may start, or why it runs where it does. Because they take long, the
    caller must not compute them on the event loop.
    """
    start = foresee(snapshot, policy, now).get(job.uid) if snapshot.leading else None
    found = grounds(snapshot, job, policy, now)
    if found is not None and found.growth == RIGID:
        found = replace(found, growth=_rigid(job))
    return {
        "unblock": unblock_views(snapshot, job, policy, now),
        "expected": None if start is None else expected_view(start, now),
        "running": None if found is None else RunningView(**asdict(found)),
    }


def _rigid(job: Job) -> str:
    """Return why a rigid gang does not grow, and which field of its object would let it grow."""
    kind = KINDS.get(job.kind)
    if kind is None or not kind.resizes:
        return f"its kind: Kohort does not resize a {job.kind}"
    if kind.bounds_at:
        return f"its bounds: it is a rigid gang; set spec.{kind.bounds_at} with maxReplicas to let it grow"
    return RIGID


def unblock_views(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> tuple[ChangeView, ...]:
    """Return the smallest change of each kind (such as more nodes) that would admit the job now.

    This takes dozens of trial decisions, so it must not run on the event loop.
    """
    changes = unblock(snapshot, job.uid, policy, now)
    return tuple(ChangeView(kind=change.kind, size=change.size, text=change.text) for change in changes)


def _reasons_of(told: Explanation, job: Job) -> dict[str, object]:
    return {
        "mend": _resume(job) if told.reason is Reason.SUSPENDED else told.mend,
        "arithmetic": told.arithmetic,
        "needs": tuple(
            NeedView(role=need.role, members=need.members, requests=amounts(need.requests)) for need in told.needs
        ),
        "ahead": tuple(AheadView(job=ahead.job, why=ahead.why) for ahead in told.ahead),
        "plan": dict(told.plan),
        "missing_pods": told.missing_pods,
        "shrunk_for": told.shrunk_for,
        "waits_for": told.waits_for,
        "nodes": tuple(_room(node) for node in told.nodes),
        "held": held_views(told.held),
    }


def _resume(job: Job) -> str:
    """Return how to resume a suspended job: by the field of its kind, or by scaling it up if the kind has none."""
    kind = KINDS.get(job.kind)
    if kind is None:
        return ""
    if not kind.suspends:
        return f"scale it up again: kubectl -n {job.namespace} scale {kind.kind.lower()} {job.name} --replicas=N"
    return f"set {kind.suspended_by} to false, as `kohort resume {job.key}` does"


def _drift(drift: Drift, now: float) -> DriftView:
    behind, percent = round(drift.behind, 2), 100.0 * drift.behind / drift.whole
    slots = "1 worker-slot" if abs(behind) == 1 else f"{abs(behind):g} worker-slots"
    way = f"{slots} ({abs(percent):.0f} % of its work) {'behind' if behind > 0 else 'ahead'}"
    said = (
        f"{way if behind else 'on time'}: it needs {drift.needed:.4g} more, and its schedule has {drift.scheduled:.4g}"
    )
    said += f", by its report of {max(0.0, now - drift.at):.0f} s ago" + (f"; {drift.follows}" if drift.follows else "")
    return DriftView(needed=drift.needed, scheduled=drift.scheduled, behind=behind, percent=percent, text=said)


def _room(node: NodeRoom) -> NodeRoomView:
    return NodeRoomView(
        node=node.node,
        free=amounts(node.free),
        missing=amounts(node.missing),
        refused=node.refused,
        promised=node.promised,
    )


def held_views(held: Iterable[HeldRoom]) -> tuple[HeldView, ...]:
    """Return the resources that pods of finished jobs still hold."""
    return tuple(HeldView(job=h.job, pod=h.pod, node=h.node, requests=amounts(h.requests)) for h in held)
