"""L8: a worker that is taken from a Deployment is the one that the ledger takes, by the numbers that its pods bear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from extender.kube.jobkinds import DELETION_COST, SLOT, deletion_cost
from lab.sim.objects import JobKind, JobObject, PodObject
from lab.sim.pods.world import World
from policy.cluster.model import WORKER, Slot
from tests.simulation.faults import CHEAPEST
from tests.simulation.past import Past

if TYPE_CHECKING:
    from tests.simulation.processes import Extender

NUMBERED: Final = 45.0  # seconds in the calm until a Deployment's pods bear numbers of their own: the longest back-off
KNOWN_NUMBERED: Final = 20.0  # the same, from when the leader's ledger knows that they do not


class Numbers:
    """``idle``: whether a replica's controller can write nothing now."""

    def __init__(self, world: World, violated: Callable[[str], None]) -> None:
        self.idle: Callable[[str], bool] = lambda replica: False
        self._world = world
        self._violated = violated
        self._misnumbered: dict[str, float] = {}  # uid -> since when the leader knows

    def is_numbered(self, job: JobObject) -> bool:
        """Whether what is written on a Deployment's bound pods lets the highest numbers go first: 0, 1 ..., each once.

        While there are more pods than it asks for, its controller is about to take some.
        """
        pods = [pod for pod in self._world.store.pods_of(job.uid) if pod.holds_room and pod.deleted is None]
        if any(SLOT not in pod.annotations for pod in pods) or len(pods) != job.spec.workers:
            return True  # bound by another scheduler
        numbers = sorted(number_on(pod) for pod in pods)
        costs = all(
            pod.annotations.get(DELETION_COST) in (str(CHEAPEST), deletion_cost(number_on(pod))[DELETION_COST])
            for pod in pods
        )  # a user's cost stays
        return costs and numbers == list(range(len(pods)))

    def check(self, job: JobObject | None, past: Past, calm_since: float | None, now: float) -> None:
        """L8: a worker that is taken from a Deployment is the one that the ledger takes, once nothing disturbs it."""
        if job is None or past.unnumbered_since is None or calm_since is None:
            return
        if now - max(past.unnumbered_since, calm_since) > NUMBERED:
            pods = (pod for pod in self._world.store.pods_of(job.uid) if pod.holds_room and pod.deleted is None)
            told = ", ".join(f"{pod.annotations[SLOT]} at {pod.annotations.get(DELETION_COST)}" for pod in pods)
            self._violated(f"{job.key}: its pods are numbered {told} for {NUMBERED:g} s")

    def check_known(self, extenders: Sequence[Extender], calm_since: float | None, now: float) -> None:
        """L8, for pods of which the leader knows that they bear another number, and may write theirs."""
        leading = (one.live.ledger.snapshot for one in extenders if one.leads and not self.idle(one.replica))
        known = {pod.uid: pod for snapshot in leading for pod in snapshot.pods.values() if pod.misnumbered}
        self._misnumbered = {uid: self._misnumbered.get(uid, now) for uid in known}
        for uid, since in self._misnumbered.items():
            if calm_since is not None and now - max(since, calm_since) > KNOWN_NUMBERED:
                pod = known[uid]
                self._violated(f"{pod.name} is numbered {pod.numbered}, and has been {pod.slot} for long")


def slot_of(pod: PodObject) -> Slot | None:
    """The slot by which the ledger knows it; a Deployment's pod has the one that is written on it."""
    return pod.slot if pod.kind is not JobKind.DEPLOYMENT else Slot(WORKER, number_on(pod))


def number_on(pod: PodObject) -> int:
    """Which is written on a Deployment's pod; -1 where none is."""
    return int(pod.annotations.get(SLOT, "--1").rpartition("-")[2])
