"""The ledger's entry for one job: its state, its plan, its place at the barrier."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from policy.cluster.frozen import quick
from policy.cluster.lifecycle import AWAITED, Awaits, State
from policy.cluster.model import PS, WORKER, Job, Slot
from policy.cluster.refusedwrite import RefusedWrite

__all__ = ["ADMITTED", "INVALID", "SUSPENDED", "Deadline", "Gang", "State", "no_gang", "told_state"]

INVALID: Final = "invalid"
SUSPENDED: Final = "suspended"


class Deadline(NamedTuple):
    """Until when a gang waits (``at``: seconds since the epoch), and for what."""

    awaits: Awaits
    at: float


@quick
@dataclass(frozen=True, slots=True)
class Gang:
    """What Kohort intends for one job.

    nodes: the planned node of each slot, bound members included; its room is charged from the moment of planning.
    workers: how many workers the job was given (0 while it waits or is paused).
    ps: how many ps it was given, where the policy schedules them; None: as many as the job object asks for.
    ps_next: how many ps its object is to ask for before it starts again, where that changes only while it is suspended.
    least: the minimum of workers under which it was bound; a user who raises the minimum does not break what runs.
    whole: whether its members are bound together or not at all; only the baseline fifo-pod has gangs that are not.
    waits_for: uids, sorted, of pods that must be gone before the plan's nodes are handed out (room being freed).
    held: pods at the barrier: kube-scheduler has passed them and waits in bind.
    in_flight: bindings without a known outcome (pod uid -> node); their room stays charged whatever the plan says.
    window_ends: when the held binds are refused, unless another member comes; hold_ends: when they are in any case.
    deadline: until when the gang waits, and for what; None: for as long as it takes.
    awaited: of a running gang, how many of the workers that it was given last have not come yet; of one that is moved,
    how many members are not on their new nodes yet.
    retried: the plan, or the growth, has been tried once more.
    attempts, not_before: plans that failed in a row, of a running gang growths; and the end of the back-off, before
    which it is not admitted or not grown (seconds since the epoch).
    misses: planned nodes in a row that kube-scheduler did not offer.
    scaled_at: last resize; grew: its direction; on_behalf_of: the job that the last shrink was for.
    turns: when the direction of resizing changed last (oldest first).
    kept_at: when workers that it was told to give up were last given back to it, because none of them went.
    before: how many workers it had before a resize that the API does not show as done yet.
    refused: the write whose refusal by the API server it bears: the binding for which its plan was given up, or the
    resize for which it was left its workers.
    lost: members whose room a preemption by another scheduler took, and the node where it was (slot -> node).
    targets: earlier values of ``workers`` that the job object may still show as replicas.
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
    held: Mapping[str, Slot] = field(default_factory=dict)
    in_flight: Mapping[str, str] = field(default_factory=dict)
    window_ends: float | None = None
    hold_ends: float | None = None
    deadline: Deadline | None = None
    awaited: int = 0
    retried: bool = False
    attempts: int = 0
    misses: int = 0
    not_before: float = 0.0
    admitted_at: float | None = None
    scaled_at: float | None = None
    grew: bool | None = None
    on_behalf_of: str = ""
    turns: tuple[float, ...] = ()
    kept_at: float | None = None
    before: int | None = None
    refused: RefusedWrite | None = None
    targets: tuple[int, ...] = ()
    lost: Mapping[Slot, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError for a deadline of something that a gang in this state does not wait for."""
        if self.deadline is not None and self.deadline.awaits not in AWAITED[self.state]:
            raise ValueError(f"a {self.state.value} gang waits for no {self.deadline.awaits.value}")

    @property
    def moments(self) -> tuple[float, ...]:
        """Every time (seconds since the epoch) at which something of it ends: window, deadline, back-off."""
        deadline = self.deadline.at if self.deadline is not None else None
        return tuple(at for at in (self.window_ends, deadline, self.not_before) if at is not None)

    @property
    def saving(self) -> bool:
        """Whether the gang is to be moved and its training has been asked for a checkpoint first."""
        return self.deadline is not None and self.deadline.awaits is Awaits.CHECKPOINT

    @property
    def robbed(self) -> Mapping[Slot, str]:
        """The members that a preemption took and that have no node again yet."""
        return {slot: node for slot, node in self.lost.items() if slot not in self.nodes and self.gives(slot)}

    @property
    def admitted(self) -> bool:
        """Whether the job has a plan or runs."""
        return self.state in ADMITTED

    def gives(self, slot: Slot) -> bool:
        """Whether the slot is within what the job was given."""
        if slot.role == WORKER:
            return slot.index < self.workers
        return slot.role != PS or self.ps is None or slot.index < self.ps


@lru_cache(maxsize=1024)
def no_gang(job_uid: str) -> Gang:
    """What is looked at where the job has no entry: one that waits."""
    return Gang(job_uid)


ADMITTED = (State.PLANNED, State.BINDING, State.RUNNING, State.MIGRATING, State.REPAIRING)


def told_state(job: Job, gang: Gang) -> str:
    """The state in the word that people are told: of those that wait for nothing, why not."""
    if job.invalid:
        return INVALID
    if job.suspended and gang.state is State.WAITING:
        return SUSPENDED
    if job.released and gang.state is State.WAITING:
        return State.RELEASING.value
    return gang.state.value
