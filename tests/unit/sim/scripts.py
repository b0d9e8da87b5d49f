"""A policy that carries out a given script of actions."""

from __future__ import annotations

from dataclasses import dataclass

from lab.sim.engine import START
from lab.sim.objects import JobSpec
from policy.cluster.actions import Action, Admit, Decision, Remember
from policy.cluster.gang import State
from policy.cluster.job import Slot
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy

UID = "job-000000"  # the uid of a trace's first job


@dataclass(frozen=True)
class Script(Policy):
    """A policy that takes each action of ``does`` when its time has come.

    admits: each waiting job is started on n1 with all the workers that it asks for.
    """

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
    """Return a placement of all the job's slots on one node."""
    return dict.fromkeys(job.slots, where)
