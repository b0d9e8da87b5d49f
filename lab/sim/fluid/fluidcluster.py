"""The cluster of the job-level simulator: nodes, jobs and pods, and the facts that each change of them makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lab.sim.fluid import faults
from lab.sim.fluid.members import Members
from lab.sim.objects import JobSpec
from lab.sim.traces import Trace
from policy.cluster.events import Event, JobGone, JobSeen, NodeGone, NodeSeen, PodGone, PodSeen
from policy.cluster.frozen import replace
from policy.cluster.gang import Gang
from policy.cluster.job import Slot
from policy.cluster.snapshot import Snapshot


class FluidCluster:
    """The state of the cluster. Its methods return the facts (events) that they cause.

    ``known``: all nodes that ever existed; ``nodes``: those that exist now. ``moved``: collects the UIDs of jobs whose
    pods have changed. ``bound``: the UIDs of bound pods.
    """

    def __init__(self, trace: Trace) -> None:
        self.known = {node.name: node for node in trace.nodes}
        self.nodes = dict(self.known)
        self.jobs: dict[str, Members] = {}
        self.moved: set[str] = set()
        self.bound: dict[str, None] = {}

    def takes(self, node: str) -> bool:
        """Tell whether the node exists and is not cordoned."""
        return node in self.nodes and not self.nodes[node].unschedulable

    def arrive(self, uid: str, spec: JobSpec, now: float) -> list[Event]:
        """Add the job and all the pods that it asks for."""
        members = self.jobs[uid] = Members.arriving(spec, uid, now)
        return [JobSeen(members.job), *members.fill(Gang(uid), self, now)]

    def end(self, uid: str) -> tuple[list[Event], list[Event]]:
        """End the job, and return two lists of facts: those seen at once (finished, pods gone), and the later one
        (object gone).
        """
        members = self.jobs.pop(uid)
        ended = replace(members.job, finished=True, version=members.job.version + 1)
        gone = [self._drop(members, slot) for slot in list(members.pods)]
        return [JobSeen(ended), *gone], [JobGone(uid)]

    def follow(self, snapshot: Snapshot, uids: Iterable[str], now: float) -> list[Event]:
        """Carry out the snapshot's plans for these jobs: deletions of all jobs first, then creations and bindings."""
        found = [(self.jobs[uid], snapshot.gang(uid)) for uid in sorted(uids) if uid in self.jobs]
        events: list[Event] = []
        for members, gang in found:
            events += members.scale(gang)
            events += self._noted(gang.job_uid, members.delete_surplus(gang))
        for members, gang in found:
            events += self._noted(gang.job_uid, members.fill(gang, self, now))
        return events

    def apply_fault(self, fault: faults.Fault, uids: Mapping[str, str]) -> list[Event]:
        """Apply a fault other than a deleted job; ``uids`` maps the jobs' names to UIDs."""
        match fault:
            case faults.NodeLost(name) if name in self.nodes:
                del self.nodes[name]
                return [NodeGone(name), *self._lose_pods_on(name)]
            case faults.NodeBack(name):
                return [self._see(name, unschedulable=False)]
            case faults.NodeCordoned(name) if name in self.nodes:
                return [self._see(name, unschedulable=True)]
            case faults.PodEvicted(job, slot) if (uid := uids[job]) in self.jobs and slot in self.jobs[uid].pods:
                return [self._drop(self.jobs[uid], slot)]
            case _:
                return []

    def _see(self, name: str, *, unschedulable: bool) -> NodeSeen:
        node = replace(self.known[name], unschedulable=unschedulable, version=self.known[name].version + 1)
        self.known[name] = self.nodes[name] = node
        return NodeSeen(node)

    def _lose_pods_on(self, node: str) -> Iterable[PodGone]:
        for _, members in sorted(self.jobs.items()):
            for slot in [slot for slot, pod in members.pods.items() if pod.node == node]:
                yield self._drop(members, slot)

    def _drop(self, members: Members, slot: Slot) -> PodGone:
        gone = members.drop(slot)
        self.bound.pop(gone.uid, None)
        self.moved.add(members.job.uid)
        return gone

    def _noted(self, uid: str, events: Iterable[PodSeen | PodGone]) -> Iterable[Event]:
        for event in events:
            self.moved.add(uid)
            if isinstance(event, PodGone):
                self.bound.pop(event.uid, None)
            elif event.pod.node:
                self.bound[event.pod.uid] = None
            yield event
