"""Views of the nodes with the members on them, and of the plans of admitted gangs."""

from __future__ import annotations

from collections import defaultdict

from extender.present.jobviews import members_view
from extender.present.names import named, rigid_first
from extender.present.views.cluster import NodeMemberView, NodeView, PlanView
from policy.cluster.amounts import amounts
from policy.cluster.gang import Gang
from policy.cluster.job import Job
from policy.cluster.snapshot import Snapshot


def nodes_view(snapshot: Snapshot) -> tuple[NodeView, ...]:
    """Return every node with the members that are bound to it or planned there."""
    guests: dict[str, list[NodeMemberView]] = defaultdict(list)
    for uid in sorted(snapshot.jobs, key=lambda uid: snapshot.jobs[uid].key):
        job = snapshot.jobs[uid]
        for member in members_view(snapshot, job):
            if member.node and member.state != "ended":
                guests[member.node].append(
                    NodeMemberView(
                        job=job.key,
                        role=member.role,
                        index=member.index,
                        pod=member.pod,
                        state=member.state,
                        finished=job.finished,
                    )
                )
    others: dict[str, int] = defaultdict(int)
    for pod in snapshot.pods.values():
        if pod.holds_room and not pod.opted_in:
            others[pod.node] += 1
    return tuple(
        NodeView(
            name=name,
            ready=node.ready,
            unschedulable=node.unschedulable,
            allocatable=amounts(node.allocatable),
            free=amounts(snapshot.free(name)),
            members=tuple(guests[name]),
            other_pods=others[name],
            failures=len(failed := snapshot.failures.get(name, ())),
            last_failure_at=max((one.at for one in failed), default=None),
            avoided_until=node.shunned or None,
            barred=node.barred,
        )
        for name, node in sorted(snapshot.nodes.items())
    )


def plans_view(snapshot: Snapshot, now: float) -> tuple[PlanView, ...]:
    """Return every gang that has a plan, in order of the job's name."""
    jobs = sorted(snapshot.running(), key=lambda job: job.key)
    return tuple(_plan(snapshot, job, snapshot.gang(job.uid), now) for job in jobs)


def _plan(snapshot: Snapshot, job: Job, gang: Gang, now: float) -> PlanView:
    freeing = [snapshot.pods[uid] for uid in sorted(gang.waits_for) if uid in snapshot.pods]
    rival = snapshot.jobs.get(gang.scaling.on_behalf_of)
    return PlanView(
        **named(job),
        plan=gang.plan,
        state=gang.state.value,
        workers=gang.workers,
        nodes={str(slot): gang.nodes[slot] for slot in sorted(gang.nodes, key=rigid_first)},
        waits_for=tuple(f"{pod.namespace}/{pod.name}" for pod in freeing),
        at_barrier=tuple(str(slot) for slot in sorted(gang.held.values(), key=rigid_first)),
        in_flight=len(gang.in_flight),
        window_ends_in_seconds=None if gang.window_ends is None else gang.window_ends - now,
        deadline_in_seconds=None if gang.deadline is None else gang.deadline.at - now,
        attempts=gang.tries.attempts,
        on_behalf_of=rival.key if rival is not None else "",
    )
