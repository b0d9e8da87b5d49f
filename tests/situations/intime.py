"""Play a situation in virtual time: lift constraints, and tell how Kohort explains the gang's wait and whether the gang
starts.

``policy.step`` decides; the harness of the unit tests (``tests.builders.World``) plays the operator, kube-scheduler and
the API server.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from policy.answers.explain import explain
from policy.answers.explanation import Explanation, Waits
from policy.cluster.constraints import Constraints, Requirement, Taint, Term
from policy.cluster.events import JobGone, NodeNotOffered, PodGone
from policy.cluster.gang import State
from policy.cluster.job import Job, Role
from policy.cluster.node import Node
from policy.cluster.pod import Pod
from policy.cluster.resources import Resources
from policy.placement.binding import Blocker
from policy.placement.gang import ask_of
from policy.placement.holders import Holders
from tests.builders import START, World, job, members, pod
from tests.situations.scene import POOL, Change, Group, Holder, Host, Runs, Scene

GANG = "job-gang"
TRIES = 40
LONG_AGO = 1000.0  # A job that arrived this many seconds ago has waited for longer than kod2's starvation limit.


class InTime:
    """A scene that is played in virtual time."""

    def __init__(self, scene: Scene) -> None:
        """Let the running jobs start while all nodes are open and ready, then apply the scene's facts, and submit the
        gang last.
        """
        self.scene = scene
        self.world = World()
        self.world.nodes(*(_node(replace(host, taints=(), cordoned=False, ready=True)) for host in scene.hosts))
        for runs in scene.running:
            self._run(runs)
        self.world.see(*(_foreign(holder) for holder in scene.holders))
        self.world.see(*(_node(host) for host in scene.hosts))
        if scene.ahead is not None:
            self.world.submit(replace(_pinned(scene.ahead), arrival=START - LONG_AGO))
        gang = _gang(scene)
        made = members(gang)
        self.world.see(gang, *made[: len(made) - scene.absent])
        self._refuse()

    @property
    def gang(self) -> Job:
        """The job that waits."""
        return self.world.snapshot.jobs[GANG]

    def explained(self) -> Explanation:
        """Return the explanation of the gang's state."""
        found = explain(self.world.snapshot, GANG, self.world.policy, self.world.now)
        assert found is not None
        return found

    def waits(self) -> Waits:
        """Return why the gang waits."""
        found = self.explained().waits
        assert found is not None, "the gang does not wait"
        return found

    def binding(self) -> tuple[frozenset[str], list[Blocker]]:
        """Return the names of the constraints that keep the gang from the free room, and the blockers that the
        explanation lists.
        """
        ask, holders = ask_of(self.world.snapshot, self.gang, self.gang.min_workers), Holders(self.world.snapshot, GANG)
        found = holders.binding(ask)
        return frozenset(found.names if found is not None else ()), list(holders.blockers(ask))

    def starts(self) -> bool:
        """Let kube-scheduler bind every member that has a planned node, and tell whether all members of the gang then
        run on allowed nodes.
        """
        if not self.world.gang("gang").admitted:
            return False
        self.world.bind(self.gang)
        snapshot = self.world.snapshot
        bound = [one for one in snapshot.pods_of(GANG) if one.node]
        whole = len(bound) == sum(group.count for group in self.scene.groups)
        return whole and snapshot.gang(GANG).state is State.RUNNING and all(self._allowed(one) for one in bound)

    def _allowed(self, member: Pod) -> bool:
        """Tell whether the member is on a node of its pool that is ready, not cordoned and without taints."""
        node, slot = self.world.snapshot.nodes[member.node], member.slot
        assert slot is not None
        pool = next(group.pool for group in self.scene.groups if group.role == slot.role)
        return node.labels[POOL] == pool and node.usable and not node.taints

    # -- The methods below make the cluster as it is at the beginning. -----------------------------

    def _run(self, runs: Runs) -> None:
        made = _pinned(runs)
        self.world.start(made)
        if runs.finished:
            seen = self.world.snapshot.jobs[made.uid]
            self.world.see(replace(seen, finished=True))

    def _refuse(self) -> None:
        """Report that kube-scheduler does not offer a refused node, each time the gang is planned on one of them."""
        for _ in range(TRIES):
            gang = self.world.snapshot.gang(GANG)
            planned = ((slot, node) for slot, node in gang.nodes.items() if node in self.scene.refused)
            slot, node = next(planned, (None, ""))
            member = self.world.snapshot.member(GANG, slot) if slot is not None else None
            if member is None:
                return
            self.world.do(NodeNotOffered(member.uid, node))
        raise AssertionError("the gang is planned again and again on refused nodes")

    # -- The methods below make the changes that lift a constraint. --------------------------------

    def lift(self, *changes: Change) -> None:
        """Make the changes in the world, one after the other."""
        for change in changes:
            getattr(self, f"_{change.verb}")(change)

    def _raise(self, change: Change) -> None:
        node = self._there(change)
        self.world.see(replace(node, allocatable=Resources({**node.allocatable.amounts, **change.amounts})))

    def _uncordon(self, change: Change) -> None:
        self.world.see(self._there(change).reopened)

    def _ready(self, change: Change) -> None:
        self.world.see(self._there(change).reopened)

    def _untaint(self, change: Change) -> None:
        node = self._there(change)
        self.world.see(replace(node, taints=tuple(one for one in node.taints if one.key not in change.labels)))

    def _label(self, change: Change) -> None:
        node = self._there(change)
        self.world.see(replace(node, labels={**node.labels, **change.labels}))

    def _add(self, change: Change) -> None:
        assert change.host is not None
        self.world.see(_node(change.host))

    def _gone(self, change: Change) -> None:
        self.world.do(PodGone(f"uid-{change.name}"))

    def _end(self, change: Change) -> None:
        self.world.end(self.world.snapshot.jobs[f"job-{change.name}"])

    def _delete(self, change: Change) -> None:
        uid = f"job-{change.name}"
        pods = [PodGone(one.uid) for one in self.world.snapshot.pods_of(uid)]
        self.world.do(JobGone(uid), *pods)

    def _resume(self, _: Change) -> None:
        self.world.see(replace(self.gang, suspended=False))

    def _create(self, _: Change) -> None:
        there = {one.slot for one in self.world.snapshot.pods_of(GANG)}
        self.world.see(*(one for one in members(self.gang) if one.slot not in there))

    def _forget(self, _: Change) -> None:
        self.world.pass_time(self.world.snapshot.rules.refusal_memory_seconds + 1.0)

    def _there(self, change: Change) -> Node:
        return self.world.snapshot.nodes[change.name]


def _pinned(runs: Runs) -> Job:
    """Return a job of one worker whose pod fits only on the host that ``runs`` names."""
    pinned = Constraints(terms=(Term((), (Requirement("metadata.name", "In", (runs.host,)),)),))
    role = Role("worker", 1, Resources({**runs.asks, "pods": 1}), pinned)
    return replace(job(runs.name).done(), roles=(role,), min_workers=1, max_workers=1, keeps_pods=runs.finished)


def _node(host: Host) -> Node:
    return Node(
        host.name, Resources(dict(host.has)), uid=f"uid-{host.name}", ready=host.ready, unschedulable=host.cordoned,
        labels={POOL: host.pool, **host.labels}, taints=(*host.taints, *_taints_of(host)), version=1,
    )  # fmt: skip


def _taints_of(host: Host) -> Iterator[Taint]:
    """Yield the taints that Kubernetes sets on cordoned and on unready nodes."""
    if host.cordoned:
        yield Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    if not host.ready:
        yield Taint("node.kubernetes.io/not-ready", "", "NoSchedule")


def _foreign(holder: Holder) -> Pod:
    asks = Resources({**holder.asks, "pods": 1})
    if holder.nominated:
        return pod(holder.name, requests=asks, nominated=holder.host)
    made = pod(holder.name, requests=asks, node=holder.host)
    return replace(made, terminating=True, finalizers=(holder.finalizer,)) if holder.finalizer else made


def _gang(scene: Scene) -> Job:
    roles = tuple(Role(group.role, group.count, group.requests, _places(group)) for group in scene.groups)
    workers = sum(group.count for group in scene.groups if group.role == "worker")
    made = replace(job("gang").done(), arrival=START, roles=roles, min_workers=workers, max_workers=workers)
    return replace(made, suspended=scene.suspended, suspends=True)


def _places(group: Group) -> Constraints:
    terms = (Term(group.wants, ()),) if group.wants else ()
    return Constraints(node_selector=((POOL, group.pool),), terms=terms)
