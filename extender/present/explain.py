"""Why a job stands where it stands."""

from __future__ import annotations

from collections.abc import Iterable

from extender.present.jobs import job_detail
from extender.present.views import AheadView, ChangeView, ExplainView, HeldView, NeedView, NodeRoomView, amounts
from policy.answers.explain import Explanation, HeldRoom, NodeRoom, explain
from policy.answers.unblock import unblock
from policy.cluster.model import Job
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy


def explain_view(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> ExplainView:
    """The job with what it needs, what each node lacks for it, who is ahead, and what mends it."""
    told = explain(snapshot, job.uid, policy, now)
    base = dict(job_detail(snapshot, job, policy, now))
    return ExplainView(**base) if told is None else ExplainView(**base, **_story(told))


def unblock_views(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> tuple[ChangeView, ...]:
    """The smallest change of each kind that would admit the job now; dozens of decisions, so not on the event loop."""
    changes = unblock(snapshot, job.uid, policy, now)
    return tuple(ChangeView(kind=change.kind.value, size=change.size, text=change.text) for change in changes)


def _story(told: Explanation) -> dict[str, object]:
    return {
        "mend": told.mend,
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


def _room(node: NodeRoom) -> NodeRoomView:
    return NodeRoomView(node=node.node, free=amounts(node.free), missing=amounts(node.missing), refused=node.refused)


def held_views(held: Iterable[HeldRoom]) -> tuple[HeldView, ...]:
    """Room that pods of finished jobs hold."""
    return tuple(HeldView(job=h.job, pod=h.pod, node=h.node, requests=amounts(h.requests)) for h in held)
