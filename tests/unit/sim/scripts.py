"""A policy that does what it is told, and the names of what it is told about."""

from __future__ import annotations

from dataclasses import dataclass

from lab.sim.engine import START
from lab.sim.objects import JobSpec
from policy.cluster.actions import Action, Admit, Decision, Remember
from policy.cluster.gang import State
from policy.cluster.model import Slot
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy

UID = "job-000000"  # of a trace's first job


@dataclass(frozen=True)
class Script(Policy):
    """Does what it is told, each when due. admits: every job that waits is started on n1 with what it asks for."""

    does: tuple[tuple[float, Action], ...] = ()
    ps: int | None = None
    admits: bool = True

    @property
    def name(self) -> str:
        return "script"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        actions: list[Action] = []
        for at, action in self.does:
            if now - START >= at and f"{at}" not in snapshot.memory:
                actions += [action, Remember(f"{at}", True)]
        for job in snapshot.waiting():
            slots = job.slots(job.worker.replicas if job.worker else 0, self.ps)
            if snapshot.gang(job.uid).state is State.WAITING and self.admits and not actions:
                actions.append(Admit(job.uid, job.max_workers, dict.fromkeys(slots, "n1"), ps=self.ps))
        waiting = {job.uid: Verdict(Reason.NO_ROOM) for job in snapshot.waiting()}
        return Decision(tuple(actions), waiting)


def everywhere(job: JobSpec, where: str) -> dict[Slot, str]:
    """The whole job on one node."""
    return dict.fromkeys(job.slots, where)
