"""Check the invariants that must hold after every step of a run under any policy: pass a ``Checker`` as ``on_step``."""

from __future__ import annotations

from collections.abc import Iterator

from lab.sim.fluid.pricecheck import falling_prices
from lab.sim.invariants import violations
from lab.sim.simulatedstep import SimulatedStep
from policy.cluster.actions import Admit, Migrate, Resize
from policy.cluster.gang import Gang, State
from policy.cluster.job import WORKER, Job, Slot
from policy.cluster.resources import NOTHING, Resources
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy
from policy.systems.oasis import Oasis
from policy.systems.oasis.schedule import MEMORY


class Checker:
    """Collects the violations in ``broken``, each with its time in seconds since the epoch; a correct run has none.

    If ``policy`` is OASiS, its prices are checked too, whenever its memory (``Book``) has changed.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self.broken: list[str] = []
        self.markets = 0  # number of checks of OASiS's prices; one is made whenever OASiS has remembered something new
        base = policy.base if policy is not None else None
        self._oasis = base if isinstance(base, Oasis) else None
        self._book: object = None

    def __call__(self, step: SimulatedStep) -> None:
        """Check one step, and add its violations to ``broken``."""
        found = [*broken(step)]
        book = step.snapshot.memory.get(MEMORY)
        if self._oasis is not None and book is not self._book:
            self._book, self.markets = book, self.markets + 1
            found += falling_prices(self._oasis, step.snapshot, step.at)
        self.broken += [f"{step.at}: {what}" for what in found]


def broken(step: SimulatedStep) -> Iterator[str]:
    """Yield a sentence for each invariant that the step breaks."""
    yield from violations(step.snapshot)
    yield from _decisions(step)
    yield from _rooms(step.snapshot)
    yield from _gangs(step.snapshot)
    yield from _verdicts(step.snapshot)


def _decisions(step: SimulatedStep) -> Iterator[str]:
    """Yield a sentence for each decision that puts a job outside its bounds (except a pause), and each plan without a
    node for every slot.
    """
    for effect in step.effects:
        match effect:
            case Admit(job_uid=uid, workers=workers, nodes=nodes, whole=whole, ps=ps) if uid in step.snapshot.jobs:
                job = step.snapshot.jobs[uid]
                if not job.min_workers <= workers <= job.max_workers:
                    yield f"{job.key}: admitted with {workers} workers; allowed: {job.min_workers} to {job.max_workers}"
                if whole and (lost := set(job.slots(workers, ps)) ^ set(nodes)):
                    yield f"{job.key}: admitted with a plan that does not match its members at {_words(lost)}"
            case Resize(job_uid=uid, workers=workers) if uid in step.snapshot.jobs:
                job = step.snapshot.jobs[uid]
                if workers and not job.min_workers <= workers <= job.max_workers:
                    yield f"{job.key}: resized to {workers} workers; allowed: {job.min_workers} to {job.max_workers}"
            case Migrate(job_uid=uid, nodes=nodes) if uid in step.snapshot.jobs:
                gang = step.snapshot.gang(uid)
                if lost := set(step.snapshot.jobs[uid].slots(gang.workers, gang.ps)) ^ set(nodes):
                    key = step.snapshot.jobs[uid].key
                    yield f"{key}: migrated with a plan that does not match its members at {_words(lost)}"
            case _:
                pass


def _rooms(snapshot: Snapshot) -> Iterator[str]:
    """Yield a sentence for each node whose bound pods request more than it has. Planned pods do not count, because a
    plan may wait for pods that still hold the room.
    """
    held: dict[str, Resources] = {}
    for pod in snapshot.pods.values():
        if pod.holds_room:
            held[pod.node] = held.get(pod.node, NOTHING) + pod.requests
    for name, amounts in sorted(held.items()):
        node = snapshot.nodes.get(name)
        if node is None:
            yield f"a pod is bound to {name}, which does not exist"
        elif not amounts.fits(node.allocatable):
            yield f"the pods on node {name} request {amounts}, and it has {node.allocatable}"


def _gangs(snapshot: Snapshot) -> Iterator[str]:
    """Yield a sentence for each running gang that lacks a rigid member or is below its minimum, and each waiting gang
    that holds room.
    """
    for uid, job in sorted(snapshot.jobs.items()):
        gang = snapshot.gang(uid)
        bound = {pod.slot for pod in snapshot.pods_of(uid) if pod.slot is not None and pod.holds_room}
        workers = sum(1 for slot in bound if slot.role == WORKER)
        if gang.state is State.RUNNING and gang.whole:
            yield from _lacks(job, gang, bound, workers)
        if workers > job.max_workers:
            yield f"{job.key}: {workers} workers are bound; allowed: at most {job.max_workers}"
        if bound and gang.state in (State.WAITING, State.COMPLETED):
            yield f"{job.key}: it is {gang.state.value}, but {_words(bound)} hold room"


def _lacks(job: Job, gang: Gang, bound: set[Slot], workers: int) -> Iterator[str]:
    if lost := set(job.slots(0, gang.ps)) - bound:
        yield f"{job.key}: it runs, but {_words(lost)} are not bound"
    if workers < job.min_workers:
        yield f"{job.key}: it runs with {workers} workers; its minimum is {job.min_workers}"


def _verdicts(snapshot: Snapshot) -> Iterator[str]:
    """Yield a sentence for each waiting job for which the policy has given no verdict."""
    for job in snapshot.waiting():
        if snapshot.gang(job.uid).state is not State.RELEASING and job.uid not in snapshot.verdicts:
            yield f"{job.key}: it waits, and the policy gives no reason"


def _words(slots: set[Slot]) -> str:
    return ", ".join(str(slot) for slot in sorted(slots))
