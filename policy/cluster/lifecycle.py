"""The lifecycle of a gang as literal tables: its states, the moves between them, and what each state waits for.

1. ``next_state`` is the only function that names a gang's next state.
2. WAITING, RUNNING and COMPLETED follow from API objects alone, and so survive a restart. The other states are
   volatile: after a restart a new plan is made, or is found in the annotations of the bound members. A replica that
   stops leading forgets them in the same way (FORGET), and follows its pods from then on.
3. No edge leads from RUNNING to WAITING: a gang is shrunk to its minimum and never evicted for another job (KOD2 1a).
   Only the loss of members (REPAIRING, then RELEASING) sends it back to the queue, where it keeps its first arrival.
   The loss of the old members is part of a migration (MIGRATING); a migration that is given up with fewer members than
   the minimum is a loss like any other.
   PAUSED is a policy's decision: the gang gives up its room for a time and is admitted again later (OASiS, whose
   schedule may have time slots without work for a job).
4. A gang has at most one deadline, and it says what is awaited until then (``Awaits``). ``AWAITED`` lists what each
   state may wait for, ``policy.transitions.deadlines`` for how long, and what follows when that time is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class State(Enum):
    """The states of a gang, from waiting to completed; docs/architecture.md says what leads from each to the next."""

    WAITING = "waiting"
    PLANNED = "planned"
    BINDING = "binding"
    RUNNING = "running"
    MIGRATING = "migrating"
    PAUSED = "paused"
    REPAIRING = "repairing"
    RELEASING = "releasing"
    COMPLETED = "completed"


class Move(Enum):
    """The events in a gang's life that lead from one state to another (``TABLE``)."""

    ADMIT = "admit"
    COMMIT = "commit"
    COMPLETE = "complete"
    MIGRATE = "migrate"
    PAUSE = "pause"
    LOSE = "lose"
    GIVE_UP = "give up"
    RELEASE = "release"
    GONE = "gone"
    FINISH = "finish"
    FORGET = "forget"


class Awaits(Enum):
    """What must happen before a gang's deadline.

    ROOM: the pods go whose room the plan takes over.
    MEMBERS: kube-scheduler asks for the bindings of the planned members.
    SECOND_WINDOW: kube-scheduler asks for them again, after the first window of the barrier has ended.
    BINDINGS: the API server makes the bindings that were sent.
    GROWTH: the workers that a running gang was given come.
    CHECKPOINT: the training of a gang that is to be moved saves its state.
    MIGRATION: the members arrive on their new nodes.
    REPAIR: lost members are replaced.
    RELEASE: the operator deletes the pods of a suspended job.
    OUTCOMES: the outcomes of bindings in flight become known; the gang waits for nothing else.
    EARLIER_TERM: the outcomes become known of bindings that were already in flight when this replica began to lead.
    """

    ROOM = "room"
    MEMBERS = "members"
    SECOND_WINDOW = "second window"
    BINDINGS = "bindings"
    GROWTH = "growth"
    CHECKPOINT = "checkpoint"
    MIGRATION = "migration"
    REPAIR = "repair"
    RELEASE = "release"
    OUTCOMES = "outcomes"
    EARLIER_TERM = "outcomes of an earlier term"


AWAITED: Final[Mapping[State, frozenset[Awaits]]] = {
    State.WAITING: frozenset({Awaits.OUTCOMES, Awaits.EARLIER_TERM}),
    State.PLANNED: frozenset({Awaits.ROOM, Awaits.MEMBERS, Awaits.SECOND_WINDOW}),
    State.BINDING: frozenset({Awaits.BINDINGS}),
    State.RUNNING: frozenset({Awaits.GROWTH, Awaits.OUTCOMES}),
    State.MIGRATING: frozenset({Awaits.CHECKPOINT, Awaits.MIGRATION}),
    State.PAUSED: frozenset({Awaits.OUTCOMES, Awaits.EARLIER_TERM}),
    State.REPAIRING: frozenset({Awaits.REPAIR, Awaits.ROOM, Awaits.MEMBERS}),
    State.RELEASING: frozenset({Awaits.RELEASE, Awaits.EARLIER_TERM}),
    State.COMPLETED: frozenset({Awaits.OUTCOMES, Awaits.EARLIER_TERM}),
}


class InvalidMoveError(Exception):
    """A gang was to make a move that ``TABLE`` does not have; this is a bug in Kohort and never caused by bad input."""


TABLE: Final[Mapping[tuple[State, Move], State]] = {
    (State.WAITING, Move.ADMIT): State.PLANNED,
    (State.PAUSED, Move.ADMIT): State.PLANNED,
    # After a restart, members are found bound although the ledger has no plan.
    (State.WAITING, Move.COMPLETE): State.RUNNING,
    (State.WAITING, Move.LOSE): State.REPAIRING,
    (State.WAITING, Move.RELEASE): State.RELEASING,
    (State.PLANNED, Move.COMMIT): State.BINDING,
    (State.PLANNED, Move.COMPLETE): State.RUNNING,
    (State.PLANNED, Move.GIVE_UP): State.WAITING,
    (State.PLANNED, Move.RELEASE): State.RELEASING,
    (State.BINDING, Move.COMPLETE): State.RUNNING,
    (State.BINDING, Move.GIVE_UP): State.WAITING,
    (State.BINDING, Move.RELEASE): State.RELEASING,
    (State.RUNNING, Move.MIGRATE): State.MIGRATING,
    (State.RUNNING, Move.LOSE): State.REPAIRING,
    (State.RUNNING, Move.RELEASE): State.RELEASING,
    # The gang has arrived on its new nodes, or the migration is given up while the minimum is still on the old ones.
    (State.MIGRATING, Move.COMPLETE): State.RUNNING,
    (State.MIGRATING, Move.LOSE): State.REPAIRING,
    (State.MIGRATING, Move.RELEASE): State.RELEASING,
    # The job is suspended or deleted while all old members are gone and no successor is bound: nothing is released.
    (State.MIGRATING, Move.GIVE_UP): State.WAITING,
    (State.REPAIRING, Move.COMPLETE): State.RUNNING,
    (State.REPAIRING, Move.RELEASE): State.RELEASING,
    (State.REPAIRING, Move.GONE): State.WAITING,
    (State.REPAIRING, Move.GIVE_UP): State.WAITING,
    (State.RELEASING, Move.GONE): State.WAITING,
    **{
        (state, Move.PAUSE): State.PAUSED
        for state in (State.PLANNED, State.BINDING, State.RUNNING, State.MIGRATING, State.REPAIRING)
    },
    **{
        (state, Move.FORGET): State.WAITING
        for state in (State.PLANNED, State.BINDING, State.MIGRATING, State.PAUSED, State.REPAIRING, State.RELEASING)
    },
    **{(state, Move.FINISH): State.COMPLETED for state in State},
}


def next_state(state: State, move: Move) -> State:
    """Return the state after ``move``. Raises InvalidMoveError if the table has no such move from ``state``."""
    try:
        return TABLE[state, move]
    except KeyError:
        raise InvalidMoveError(f"a {state.value} gang cannot {move.value}") from None
