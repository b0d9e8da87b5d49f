"""The lifecycle of a gang, as a literal table.

1. Every change of a gang's state goes through ``next_state``; nothing else may name a new state.
2. WAITING, RUNNING and COMPLETED follow from API objects alone and so survive a restart. PLANNED and BINDING are
   volatile: after a restart the plan is made anew, or found again in the annotations of the bound members.
   A replica that stops leading forgets them in the same way (FORGET), and follows its pods from then on.
3. No edge leads from RUNNING to WAITING: a gang is shrunk to its minimum, never evicted for a rival (KOD2 1a);
   only the loss of members (REPAIRING, then RELEASING) sends it back to the queue, with its first arrival.
   A migration (MIGRATING) expects the loss of the old members; one that is given up is a loss like any other.
   PAUSED is the policy's own wish: the gang gives up its room for a time and is admitted again (OASiS's empty slots).
"""

from __future__ import annotations

from enum import Enum

from policy.cluster.gang import State


class Move(Enum):
    """What happens to a gang."""

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


class InvalidMoveError(Exception):
    """A move that the table does not have: a bug, never bad input."""


TABLE: dict[tuple[State, Move], State] = {
    (State.WAITING, Move.ADMIT): State.PLANNED,
    (State.PAUSED, Move.ADMIT): State.PLANNED,
    # Bound members without a plan of ours: found after a restart.
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
    # Arrived, or given up with all members where they were.
    (State.MIGRATING, Move.COMPLETE): State.RUNNING,
    (State.MIGRATING, Move.LOSE): State.REPAIRING,
    (State.MIGRATING, Move.RELEASE): State.RELEASING,
    # Withdrawn while all its old members are gone and no successor is bound.
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
    """The state after ``move``. Raises InvalidMoveError where the table has none."""
    try:
        return TABLE[state, move]
    except KeyError:
        raise InvalidMoveError(f"a {state.value} gang cannot {move.value}") from None


def diagram() -> str:
    """The table as a Mermaid state diagram, for docs/architecture.md."""
    edges: dict[tuple[State, State], list[str]] = {}
    for (state, how), after in TABLE.items():
        edges.setdefault((state, after), []).append(how.value)
    lines = [f"    {old.value} --> {new.value}: {', '.join(moves)}" for (old, new), moves in edges.items()]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {State.WAITING.value}", *lines])
