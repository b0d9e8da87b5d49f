"""A job's object and pods as the API would show them, and the facts (events) that carrying out a plan causes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from lab.sim.fluid.speedmodels import RunningGang
from lab.sim.objects import JobObject, JobSpec, job_fact
from policy.cluster.events import Event, JobSeen, PodGone, PodSeen
from policy.cluster.frozen import replace
from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.job import PS, WORKER, Job, Slot
from policy.cluster.node import Node
from policy.cluster.pod import Phase, Pod
from policy.cluster.resources import NOTHING

EVALUATOR = "evaluator"


class Rooms(Protocol):
    """The facts about the cluster that ``Members.fill`` needs: which pods are bound, and which nodes accept pods."""

    @property
    def bound(self) -> Collection[str]:
        """Return the UIDs of the bound pods of all jobs."""
        ...

    def takes(self, node: str) -> bool:
        """Tell whether the node exists and is not cordoned."""
        ...


@dataclass(slots=True)
class Members:
    """One job that has arrived and not ended.

    ``made`` counts the pods that were ever created. ``servers`` is the number of ps that the policy decided; None: it
    decided none, and the job has the ps that it asks for.
    """

    spec: JobSpec
    job: Job
    pods: dict[Slot, Pod] = field(default_factory=dict)
    made: int = 0
    servers: int | None = None

    @classmethod
    def arriving(cls, spec: JobSpec, uid: str, now: float) -> Members:
        """Return the job as its user submits it, before its operator has seen it."""
        return cls(spec, job_fact(JobObject(uid, spec, created=now, version=1)))

    @property
    def asked(self) -> int:
        """Return how many workers the job object asks for."""
        return self.job.worker.replicas if self.job.worker else 0

    @property
    def bound(self) -> frozenset[str]:
        """Return the UIDs of the job's bound pods."""
        return frozenset(pod.uid for pod in self.pods.values() if pod.node)

    def running(self, nodes: Mapping[str, Node]) -> RunningGang | None:
        """Return where the gang computes, or None unless all rigid members and the minimum of workers are bound."""
        bound = {slot: pod.node for slot, pod in sorted(self.pods.items()) if pod.node in nodes}
        workers = sum(1 for slot in bound if slot.role == WORKER)
        if workers < self.job.min_workers or not all(slot in bound for slot in self.job.slots(0, self.servers)):
            return None
        computing = tuple(node for slot, node in bound.items() if slot.role not in (PS, EVALUATOR))
        servers = tuple(node for slot, node in bound.items() if slot.role == PS)
        return RunningGang(self.spec, computing, servers) if computing else None

    # -- The methods below carry out a plan. ------------------------------------------------------

    def scale(self, gang: Gang) -> Iterator[Event]:
        """Set the replica count to the gang's target; for a waiting gang, raise it to the job's minimum at least."""
        self.servers = gang.ps
        workers = gang.workers if gang.state in ADMITTED else max(self.asked, self.job.min_workers)
        if workers != self.asked:
            roles = tuple(replace(role, replicas=workers) if role.name == WORKER else role for role in self.job.roles)
            self.job = replace(self.job, roles=roles, version=self.job.version + 1)
            yield JobSeen(self.job)

    def delete_surplus(self, gang: Gang) -> Iterator[PodGone]:
        """Delete surplus pods, and bound pods of a gang that is released or whose plan has them on another node."""
        wanted = frozenset(self._wanted())
        for slot, pod in list(self.pods.items()):
            if slot not in wanted or (pod.node and _misplaced(pod, slot, gang)):
                yield self.drop(slot)

    def fill(self, gang: Gang, cluster: Rooms, now: float) -> Iterator[PodSeen]:
        """Create missing pods and make the plan's bindings, all in this instant.

        A plan that waits for pods which still hold room binds nothing yet; a node that accepts no pods gets none.
        """
        waits = gang.state not in ADMITTED or any(uid in cluster.bound for uid in gang.waits_for)
        for slot in self._wanted():
            pod, node = self.pods.get(slot), "" if waits else gang.nodes.get(slot, "")
            if node and not cluster.takes(node):
                node = ""
            if pod is not None and (pod.node or not node):
                continue
            made = pod or self._make(slot, now)
            if node:
                made = replace(made, node=node, plan=gang.plan, phase=Phase.RUNNING, version=2)
            self.pods[slot] = made
            yield PodSeen(made)

    def drop(self, slot: Slot) -> PodGone:
        """Remove the pod in that slot, and return the event of its deletion."""
        return PodGone(self.pods.pop(slot).uid)

    def unfinished(self, gang: Gang) -> bool:
        """Tell whether a later step may change the gang's pods without an effect that names the job.

        That is so while the gang is released, waits for room, or has pods without a node.
        """
        if gang.state is State.RELEASING:
            return True
        lacking = any(not pod.node and gang.gives(slot) for slot, pod in self.pods.items())
        return gang.state in ADMITTED and (bool(gang.waits_for) or lacking)

    def _wanted(self) -> tuple[Slot, ...]:
        """Return the slots that should have pods; if the number of ps is elastic, with the number that the policy
        gave.
        """
        return self.job.slots(self.asked, self.servers)

    def _make(self, slot: Slot, now: float) -> Pod:
        role = self.job.role(slot.role)
        self.made += 1
        return Pod(
            uid=f"{self.job.uid}/{slot}#{self.made}",
            namespace=self.job.namespace,
            name=f"{self.job.name}-{slot}",
            requests=role.requests if role else NOTHING,
            job_uid=self.job.uid,
            slot=slot,
            owner=self.job.name,
            opted_in=True,
            since=now,
            version=1,
        )


def _misplaced(pod: Pod, slot: Slot, gang: Gang) -> bool:
    """Tell whether a bound pod must go: its gang gives up its room, got fewer ps, or has the slot planned on another
    node.
    """
    if gang.state in (State.RELEASING, State.PAUSED):
        return True
    return gang.state in ADMITTED and (not gang.gives(slot) or gang.nodes.get(slot, pod.node) != pod.node)
