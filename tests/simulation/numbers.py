"""Check L8: a Deployment's controller removes the worker that the ledger means, because of the numbers on the pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from extender.kube.jobkinds import DELETION_COST, SLOT, deletion_cost
from lab.sim.objects import JobObject, PodObject, WorkloadKind
from lab.sim.pods.world import SimulatedWorld
from policy.cluster.job import WORKER, Slot
from tests.simulation.faults import CHEAPEST
from tests.simulation.past import Past

if TYPE_CHECKING:
    from tests.simulation.processes import ExtenderProcess

# In the calm, a Deployment's pods must have distinct numbers after this many seconds, the longest back-off.
NUMBERED: Final = 45.0
# The numbers must be right this many seconds after the leader's ledger knows that they are wrong.
KNOWN_NUMBERED: Final = 20.0


class Numbers:
    """Checks L8; ``idle`` tells whether a replica's controller cannot write now."""

    def __init__(self, world: SimulatedWorld, violated: Callable[[str], None]) -> None:
        self.idle: Callable[[str], bool] = lambda replica: False
        self._world = world
        self._violated = violated
        # pod's UID -> the time since which the leader's ledger knows that the pod's number is wrong
        self._misnumbered: dict[str, float] = {}

    def is_numbered(self, job: JobObject) -> bool:
        """Tell whether the numbers on a Deployment's bound pods are 0, 1, ..., so that the highest is removed first.

        While there are more pods than the Deployment asks for, its controller is about to delete some, and nothing is
        checked.
        """
        pods = [pod for pod in self._world.store.pods_of(job.uid) if pod.holds_room and pod.deleted is None]
        if any(SLOT not in pod.annotations for pod in pods) or len(pods) != job.spec.workers:
            return True  # A pod without a number was bound by another scheduler; nothing is checked then.
        numbers = sorted(number_on(pod) for pod in pods)
        costs = all(
            pod.annotations.get(DELETION_COST) in (str(CHEAPEST), deletion_cost(number_on(pod))[DELETION_COST])
            for pod in pods
        )  # A deletion cost that a user has written stays.
        return costs and numbers == list(range(len(pods)))

    def check(self, job: JobObject | None, past: Past, calm_since: float | None, now: float) -> None:
        """Check L8 in the calm: the numbers on a Deployment's pods are right after NUMBERED seconds at the latest."""
        if job is None or past.unnumbered_since is None or calm_since is None:
            return
        if now - max(past.unnumbered_since, calm_since) > NUMBERED:
            pods = (pod for pod in self._world.store.pods_of(job.uid) if pod.holds_room and pod.deleted is None)
            numbers = ", ".join(f"{pod.annotations[SLOT]} at {pod.annotations.get(DELETION_COST)}" for pod in pods)
            self._violated(f"{job.key}: its pods are numbered {numbers} for {NUMBERED:g} s")

    def check_known(self, extenders: Sequence[ExtenderProcess], calm_since: float | None, now: float) -> None:
        """Check L8 for pods whose number is wrong: the leader corrects the number within KNOWN_NUMBERED seconds."""
        leading = (one.live.ledger.snapshot for one in extenders if one.leads and not self.idle(one.replica))
        known = {pod.uid: pod for snapshot in leading for pod in snapshot.pods.values() if pod.misnumbered}
        self._misnumbered = {uid: self._misnumbered.get(uid, now) for uid in known}
        for uid, since in self._misnumbered.items():
            if calm_since is not None and now - max(since, calm_since) > KNOWN_NUMBERED:
                pod = known[uid]
                self._violated(f"{pod.name} is numbered {pod.numbered}, and has been {pod.slot} for long")


def slot_of(pod: PodObject) -> Slot | None:
    """Return the slot by which the ledger knows the pod; for a Deployment's pod, it is the slot written on the pod."""
    return pod.slot if pod.kind is not WorkloadKind.DEPLOYMENT else Slot(WORKER, number_on(pod))


def number_on(pod: PodObject) -> int:
    """Return the number that is written on a Deployment's pod, or -1 if there is none."""
    return int(pod.annotations.get(SLOT, "--1").rpartition("-")[2])
