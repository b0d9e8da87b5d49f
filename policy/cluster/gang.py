"""The ledger's entry for one job: its state, its plan, its place at the barrier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from policy.cluster.model import Slot


class State(Enum):
    """Where a gang stands; the moves between them are the table in lifecycle.py."""

    WAITING = "waiting"
    PLANNED = "planned"
    BINDING = "binding"
    RUNNING = "running"
    REPAIRING = "repairing"
    RELEASING = "releasing"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class Gang:
    """What Kohort intends for one job.

    nodes: the planned node of each slot, bound members included; its room is charged from the moment of planning.
    workers: how many workers the job was given (0 while it waits).
    waits_for: uids of pods that must be gone before the plan's nodes are handed out (room that is being freed).
    held: pods at the barrier: kube-scheduler has passed them and waits in bind.
    window_ends: when the held binds are refused; deadline: when the plan is given up.
    attempts, not_before: plans that failed in a row, and the end of the back-off (seconds since the epoch).
    misses: planned nodes in a row that kube-scheduler did not offer.
    scaled_at: last resize; on_behalf_of: the job that the last shrink was for.
    """

    job_uid: str
    state: State = State.WAITING
    plan: str = ""
    nodes: Mapping[Slot, str] = field(default_factory=dict)
    workers: int = 0
    waits_for: frozenset[str] = frozenset()
    held: Mapping[str, Slot] = field(default_factory=dict)
    in_flight: frozenset[str] = frozenset()
    window_ends: float | None = None
    deadline: float | None = None
    retried: bool = False
    attempts: int = 0
    misses: int = 0
    not_before: float = 0.0
    admitted_at: float | None = None
    scaled_at: float | None = None
    on_behalf_of: str = ""

    @property
    def admitted(self) -> bool:
        """Whether the job has a plan or runs."""
        return self.state in ADMITTED


ADMITTED = frozenset({State.PLANNED, State.BINDING, State.RUNNING, State.REPAIRING})
