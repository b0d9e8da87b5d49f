"""The tables of the lifecycle have exactly the documented edges, and a handler for each deadline and finding."""

from pathlib import Path
from typing import Any

import pytest

from policy.cluster.gang import ADMITTED, Deadline, Gang, HeldBinds, Scaling, State, Tries
from policy.cluster.job import Slot
from policy.cluster.lifecycle import AWAITED, TABLE, Awaits, InvalidMoveError, Move, next_state
from policy.transitions.deadlines.expiry import DEADLINES
from policy.transitions.deadlines.patience import PATIENCE
from policy.transitions.findings import Finding
from policy.transitions.settle import FOLLOWS
from tests.documents.blocks import lifecycle

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
    text = lifecycle()
    assert all(f"{state.value} --> {after.value}" in text for (state, _), after in TABLE.items())


def test_whatever_a_state_may_wait_for_has_its_time_and_its_end() -> None:
    assert set(DEADLINES) == {(state, awaits) for state in State for awaits in AWAITED[state]}
    assert set(PATIENCE) == set(Awaits)


@pytest.mark.parametrize("state", State, ids=lambda s: s.value)
@pytest.mark.parametrize("awaits", Awaits, ids=lambda a: a.value)
def test_a_gang_waits_for_nothing_that_its_state_does_not_await(state: State, awaits: Awaits) -> None:
    if awaits in AWAITED[state]:
        assert Gang("j", state, deadline=Deadline(awaits, 1.0)).deadline == (awaits, 1.0)
    else:
        with pytest.raises(
            ValueError, match=f"a gang that is {state.value} must not have a deadline for {awaits.value}"
        ):
            Gang("j", state, deadline=Deadline(awaits, 1.0))


def test_the_documentation_has_every_deadline() -> None:
    """Each row of the table in docs/architecture.md names one or more states and what they await."""
    text = (Path(__file__).parents[3] / "docs" / "architecture.md").read_text()
    table = text.partition("### Deadlines")[2].partition("###")[0]
    rows = [[cell.strip() for cell in row.split("|")[1:3]] for row in table.splitlines() if row.startswith("|")][2:]
    assert {(state, awaits) for states, awaits in rows for state in states.split(", ")} == {
        (state.value, awaits.value) for state, awaits in DEADLINES
    }


def test_a_look_at_the_pods_is_answered_in_every_state_but_these() -> None:
    """Waiting gangs have no pods to follow, and paused or completed gangs do not follow their pods."""
    quiet = {pair for state in State for finding in Finding if (pair := (state, finding)) not in FOLLOWS}
    unmoved = {(Z, finding) for finding in Finding if finding is not Finding.FINISHED}
    assert quiet == {(W, Finding.ENDED), (W, Finding.NOBODY), *unmoved, *((C, finding) for finding in Finding)}


def test_the_plan_of_an_admitted_gang_keeps_to_the_bounds_of_its_job() -> None:
    pods = set(Finding) - {Finding.FINISHED, Finding.WITHDRAWN}
    assert {FOLLOWS[state, finding][0] for state in ADMITTED for finding in pods} == {FOLLOWS[R, Finding.ENOUGH][0]}


SLOT = Slot("worker", 0)
PARTS: dict[str, tuple[dict[str, Any], set[State]]] = {
    "planned nodes": ({"nodes": {SLOT: "n"}}, {P, B, R, M, X}),
    "workers": ({"workers": 1}, {P, B, R, M, X}),
    "members lost to a preemption": ({"lost": {SLOT: "n"}}, {P, B, R, M, X}),
    "a resize": ({"scaling": Scaling(scaled_at=1.0)}, {P, B, R, M, X}),
    "held binds": ({"barrier": HeldBinds({"p": SLOT}, 1.0, 2.0)}, {P}),
    "pods that are to go": ({"waits_for": ("p",)}, {P, X}),
    "awaited members": ({"awaited": 1}, {R, M}),
    "a second try": ({"tries": Tries(retried=True)}, {P, B, R}),
    "bindings in flight": ({"in_flight": {"p": "n"}}, set(State)),
    "failed plans": ({"tries": Tries(attempts=1, misses=1, not_before=1.0)}, set(State)),
}


@pytest.mark.parametrize("state", State, ids=lambda s: s.value)
@pytest.mark.parametrize(("parts", "states"), PARTS.values(), ids=PARTS.keys())
def test_a_part_that_does_not_go_with_its_state_cannot_be_built(
    state: State, parts: dict[str, Any], states: set[State]
) -> None:
    if state in states:
        assert Gang("j", state, **parts).state is state
    else:
        with pytest.raises(ValueError, match=state.value):
            Gang("j", state, **parts)


def test_a_barrier_window_has_a_held_bind() -> None:
    with pytest.raises(ValueError, match="without a held bind"):
        HeldBinds({}, 1.0, 2.0)
