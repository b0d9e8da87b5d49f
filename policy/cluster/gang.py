"""The ledger's entry for one job: its state, its plan, and what it waits for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from policy.cluster.frozen import quick
from policy.cluster.job import PS, WORKER, Job, Slot
from policy.cluster.lifecycle import AWAITED, Awaits, State
from policy.cluster.reasons import Reason
from policy.cluster.refusedwrite import RefusedWrite

__all__ = [
    "ADMITTED", "INVALID", "NEVER_SCALED", "NO_FAILURE", "SUSPENDED",
    "Deadline", "Gang", "HeldBinds", "Scaling", "State", "Tries", "no_gang", "state_name",
]  # fmt: skip

INVALID: Final = "invalid"
SUSPENDED: Final = "suspended"
ADMITTED: Final = (State.PLANNED, State.BINDING, State.RUNNING, State.MIGRATING, State.REPAIRING)
# FREEING has the states in which a gang may wait for room that other jobs free.
FREEING: Final = (State.PLANNED, State.REPAIRING)
# AWAITING has the states in which a gang may wait for members whose nodes are planned.
AWAITING: Final = (State.RUNNING, State.MIGRATING)
# TRYING has the states in which a gang may try a plan or a growth for the second time.
TRYING: Final = (State.PLANNED, State.BINDING, State.RUNNING)
NOTHING_HELD: Final[Mapping[str, Slot]] = {}


class Deadline(NamedTuple):
    """What a gang waits for, and until when (``at``, in seconds since the epoch)."""

    awaits: Awaits
    at: float


@quick
@dataclass(frozen=True, slots=True)
class HeldBinds:
    """The bind calls of one gang that wait at the barrier, while kube-scheduler waits for Kohort's answer.

    slots: the slot of each held pod, by pod uid; never empty.
    window_ends: when the binds are refused (seconds since the epoch), unless another member's bind comes before.
    hold_ends: when the binds are refused in any case.
    """

    slots: Mapping[str, Slot]
    window_ends: float
    hold_ends: float

    def __post_init__(self) -> None:
        """Raise ValueError if no bind is held."""
        if not self.slots:
            raise ValueError("a barrier without a held bind call must not have a window")


@quick
@dataclass(frozen=True, slots=True)
class Tries:
    """The failed attempts of a gang, and its back-off.

    attempts: how many plans have failed in a row; for a running gang, how many growths.
    misses: how many planned nodes in a row kube-scheduler did not offer.
    not_before: end of the back-off (seconds since the epoch), before which the gang is not admitted or not grown.
    retried: whether the present plan, or the present growth, has been tried once more.
    why: why the last plan failed; None if none has, or if it is a growth that has failed.
    """

    attempts: int = 0
    misses: int = 0
    not_before: float = 0.0
    retried: bool = False
    why: Reason | None = None


@quick
@dataclass(frozen=True, slots=True)
class Scaling:
    """How an admitted gang has been resized; times in seconds since the epoch.

    scaled_at: when the last resize was. grew: whether that was a growth.
    on_behalf_of: uid of the job for which the last shrink frees room; empty after any other resize.
    turns: the last times at which a shrink followed a growth or a growth followed a shrink, oldest first.
    kept_at: when a shrink was last taken back because none of the workers had gone.
    before: the number of workers before a resize that the API does not show as done yet; None if there is none.
    targets: earlier targets, which the job object may still show as its replicas.
    """

    scaled_at: float | None = None
    grew: bool | None = None
    on_behalf_of: str = ""
    turns: tuple[float, ...] = ()
    kept_at: float | None = None
    before: int | None = None
    targets: tuple[int, ...] = ()


NO_FAILURE: Final = Tries()
NEVER_SCALED: Final = Scaling()


@quick
@dataclass(frozen=True, slots=True)
class Gang:
    """The state and the plan of one job. Raises ValueError for parts that do not go with the state.

    plan: the plan's name, which is also written on the bound pods.
    nodes: the planned node of each slot, bound members included; its room is charged from the moment of planning.
    workers: how many workers the job was given (0 while it waits or is paused).
    ps: how many ps the job was given, if the policy schedules them; None means as many as the job object asks for.
    ps_next: how many ps the job object must ask for before the job starts again; None unless its kind can change that
    number only while the job is suspended.
    least: the minimum number of workers when the gang was bound; it still counts when a user raises the job's minimum.
    whole: whether its members are bound together or not at all; false only under the baseline fifo-pod.
    waits_for: sorted uids of the pods that must be gone before the plan's nodes are handed out (room being freed).
    barrier: the binds that are held while the gang is planned; None if none is held.
    in_flight: bindings without a known outcome (pod uid -> node); their room stays charged whatever the plan says.
    deadline: what the gang waits for, and until when; None means that it waits without a limit, or for nothing.
    awaited: for a running gang, how many of the workers that it was given have not come yet; for a gang that is moved,
    how many members are not on their new nodes yet.
    tries: its failed attempts, and until when it backs off.
    admitted_at: when its minimum was first bound (seconds since the epoch).
    scaling: how it has been resized.
    refused: the write that the API server refused: the binding for which the plan was given up, or the resize that
    was taken back.
    lost: the members that another scheduler has preempted, with the node that each lost (slot -> node).
    """

    job_uid: str
    state: State = State.WAITING
    plan: str = ""
    nodes: Mapping[Slot, str] = field(default_factory=dict)
    workers: int = 0
    ps: int | None = None
    ps_next: int | None = None
    least: int = 0
    whole: bool = True
    waits_for: Collection[str] = ()
    barrier: HeldBinds | None = None
    in_flight: Mapping[str, str] = field(default_factory=dict)
    deadline: Deadline | None = None
    awaited: int = 0
    tries: Tries = NO_FAILURE
    admitted_at: float | None = None
    scaling: Scaling = NEVER_SCALED
    refused: RefusedWrite | None = None
    lost: Mapping[Slot, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError if a part does not go with the state."""
        state = self.state
        if self.deadline is not None and self.deadline.awaits not in AWAITED[state]:
            raise ValueError(f"a gang that is {state.value} must not have a deadline for {self.deadline.awaits.value}")
        if state not in ADMITTED and (self.nodes or self.workers or self.lost or self.scaling != NEVER_SCALED):
            raise ValueError(f"a gang that is {state.value} must not have a plan")
        if self.barrier is not None and state is not State.PLANNED:
            raise ValueError(f"a gang that is {state.value} must not have held bind calls")
        if self.waits_for and state not in FREEING:
            raise ValueError(f"a gang that is {state.value} must not wait for pods to go")
        if self.awaited and state not in AWAITING:
            raise ValueError(f"a gang that is {state.value} must not await workers")
        if self.tries.retried and state not in TRYING:
            raise ValueError(f"a gang that is {state.value} must not try a plan for the second time")

    @property
    def held(self) -> Mapping[str, Slot]:
        """The slots of the pods whose binds are held, by pod uid."""
        return self.barrier.slots if self.barrier is not None else NOTHING_HELD

    @property
    def window_ends(self) -> float | None:
        """The time (seconds since the epoch) at which the held binds are refused, unless another bind call comes first.

        It is None if no bind is held.
        """
        return self.barrier.window_ends if self.barrier is not None else None

    @property
    def hold_ends(self) -> float | None:
        """The latest time (seconds since the epoch) at which the held binds are refused; None if none is held."""
        return self.barrier.hold_ends if self.barrier is not None else None

    @property
    def moments(self) -> tuple[float, ...]:
        """The times (seconds since the epoch) at which the gang's barrier window, deadline and back-off end."""
        deadline = self.deadline.at if self.deadline is not None else None
        return tuple(at for at in (self.window_ends, deadline, self.tries.not_before) if at is not None)

    @property
    def saving(self) -> bool:
        """Whether the gang's migration waits for the checkpoint for which its training has been asked."""
        return self.deadline is not None and self.deadline.awaits is Awaits.CHECKPOINT

    @property
    def preempted(self) -> Mapping[Slot, str]:
        """The members that another scheduler has preempted and that have no new node yet (slot -> last node)."""
        return {slot: node for slot, node in self.lost.items() if slot not in self.nodes and self.gives(slot)}

    @property
    def admitted(self) -> bool:
        """Whether the job has a plan or runs."""
        return self.state in ADMITTED

    def gives(self, slot: Slot) -> bool:
        """Tell whether the slot is within the numbers of workers and ps that the job was given."""
        if slot.role == WORKER:
            return slot.index < self.workers
        return slot.role != PS or self.ps is None or slot.index < self.ps


@lru_cache(maxsize=1024)
def no_gang(job_uid: str) -> Gang:
    """Return the gang that stands for a job without an entry in the ledger: waiting, without a plan."""
    return Gang(job_uid)


def state_name(job: Job, gang: Gang) -> str:
    """Return the name of the job's state for people.

    A malformed job is ``invalid``. A job without a plan is ``suspended`` if its user has suspended it, and
    ``releasing`` if Kohort has. Any other job has the name of its gang's state.
    """
    if job.invalid:
        return INVALID
    if job.suspended and gang.state is State.WAITING:
        return SUSPENDED
    if job.released and gang.state is State.WAITING:
        return State.RELEASING.value
    return gang.state.value
