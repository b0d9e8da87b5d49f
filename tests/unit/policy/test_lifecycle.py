"""The table of moves: every edge, and no other."""

import pytest

from policy.cluster.gang import State
from policy.cluster.lifecycle import TABLE, InvalidMoveError, Move, diagram, next_state

W, P, B, R, M, Z, X, L, C = State
EDGES = {
    (W, Move.ADMIT): P, (W, Move.COMPLETE): R, (W, Move.LOSE): X, (W, Move.RELEASE): L,
    (P, Move.COMMIT): B, (P, Move.COMPLETE): R, (P, Move.GIVE_UP): W, (P, Move.RELEASE): L,
    (B, Move.COMPLETE): R, (B, Move.GIVE_UP): W, (B, Move.RELEASE): L,
    (R, Move.LOSE): X, (R, Move.RELEASE): L, (R, Move.MIGRATE): M,
    (M, Move.COMPLETE): R, (M, Move.LOSE): X, (M, Move.RELEASE): L, (M, Move.GIVE_UP): W,
    (M, Move.FORGET): W, (M, Move.FINISH): C,
    (X, Move.COMPLETE): R, (X, Move.RELEASE): L, (X, Move.GONE): W, (X, Move.GIVE_UP): W,
    (L, Move.GONE): W,
    (P, Move.PAUSE): Z, (B, Move.PAUSE): Z, (R, Move.PAUSE): Z, (X, Move.PAUSE): Z, (M, Move.PAUSE): Z,
    (Z, Move.ADMIT): P,
    (P, Move.FORGET): W, (B, Move.FORGET): W, (X, Move.FORGET): W, (L, Move.FORGET): W,
    (Z, Move.FORGET): W, (Z, Move.FINISH): C,
    (W, Move.FINISH): C, (P, Move.FINISH): C, (B, Move.FINISH): C, (R, Move.FINISH): C, (X, Move.FINISH): C,
    (L, Move.FINISH): C, (C, Move.FINISH): C,
}  # fmt: skip


@pytest.mark.parametrize("state", State, ids=lambda s: s.value)
@pytest.mark.parametrize("how", Move, ids=lambda m: m.value)
def test_every_edge_and_no_other(state: State, how: Move) -> None:
    if (state, how) in EDGES:
        assert next_state(state, how) is EDGES[state, how]
    else:
        with pytest.raises(InvalidMoveError, match=f"a {state.value} gang cannot {how.value}"):
            next_state(state, how)


def test_a_running_gang_is_never_sent_back_to_the_queue() -> None:
    assert all(after is not State.WAITING for (state, _), after in TABLE.items() if state is State.RUNNING)


def test_the_diagram_has_every_edge() -> None:
    text = diagram()
    assert all(f"{state.value} --> {after.value}" in text for (state, _), after in TABLE.items())
