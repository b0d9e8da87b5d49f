"""The rules about what policies remember can be broken: made-up texts with one fault each are found."""

import copy
import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from extender.kube.jobkinds import MEMORY
from tests.simulation import memory
from tests.simulation.clocks import SimLoop
from tests.simulation.memory import oasis, specon

Json = dict[str, Any]
PLAN: list[Any] = [
    [666, 1, 3, 4, {"cpu": 1000}, [], None, [1, 1, 4]],
    0.7,
    ["n1", "n2"],
    [[667, 2, [["worker", 1, 2]]]],
]
ADMITTED: Json = {"slot": 666, "plan": PLAN, "seen": [666, 8.3, {"cpu": 1000}, {}, 4, -0.2]}
REFUSED: Json = {"rejected": "payoff -1: worth 2, price 3", "refused": 668}
GROWTH = [10_126.0, "converged", 1.0, 0.1, 0.1, 10_126.0, 0.002, 10_120.0, False, False]


def changed(text: Json, **values: Any) -> Json:
    return {key: value for key, value in (copy.deepcopy(text) | values).items() if value is not None}


def told(**values: Any) -> list[Any]:
    names = ("since", "category", "first", "best", "value", "at", "growth", "converged", "moved", "balanced")
    return list((dict(zip(names, GROWTH, strict=True)) | values).values())


def found(rule: Callable[..., Any], old: Any, new: Any, jumped: bool = False) -> list[str]:
    async def judge() -> list[str]:
        return list(rule(old, new, jumped))

    loop = SimLoop()
    try:
        return loop.run_until_complete(judge())
    finally:
        loop.close()


KEPT: Mapping[str, tuple[Any, Any, Any]] = {
    "planned anew after a node was lost": (oasis, ADMITTED, changed(ADMITTED, plan=[PLAN[0], -3.0, ["n2"], []])),
    "a slot later": (oasis, ADMITTED, changed(ADMITTED, slot=667)),
    "admitted": (oasis, {"seen": ADMITTED["seen"]}, ADMITTED),
    "its worth counted again": (oasis, REFUSED, changed(REFUSED, seen=ADMITTED["seen"])),
    "told more": (specon, GROWTH, told(since=10_200.0, best=0.05, growth=0.001)),
    "grows again": (specon, GROWTH, told(category="progressing", growth=2.0, converged=None)),
    "moved": (specon, GROWTH, told(value=None, at=None, growth=None, moved=True)),
}
FORGOTTEN: Mapping[str, tuple[Any, Any, Any]] = {
    "a refusal": (oasis, REFUSED, changed(ADMITTED)),
    "why it was refused": (oasis, REFUSED, changed(REFUSED, rejected="payoff -2: worth 2, price 4")),
    "when it was refused": (oasis, REFUSED, changed(REFUSED, refused=669)),
    "all of an admitted job": (oasis, ADMITTED, None),
    "its plan": (oasis, ADMITTED, changed(ADMITTED, plan=None)),
    "what it was admitted as": (oasis, ADMITTED, changed(ADMITTED, plan=[[666, 2, *PLAN[0][2:]], *PLAN[1:]])),
    "what the prices keep of it": (oasis, ADMITTED, changed(ADMITTED, seen=[667, *ADMITTED["seen"][1:]])),
    "its growth": (specon, GROWTH, told(growth=None)),
    "its first report": (specon, GROWTH, told(first=0.5)),
    "its best report": (specon, GROWTH, told(best=0.2)),
    "all of its reports": (specon, GROWTH, None),
    "that it was moved": (specon, told(moved=True), GROWTH),
    "that it was moved for balance": (specon, told(balanced=True), GROWTH),
}


@pytest.mark.parametrize(("rule", "old", "new"), KEPT.values(), ids=KEPT.keys())
def test_what_may_become_of_a_text(rule: Any, old: Any, new: Any) -> None:
    assert found(rule, old, new) == []


@pytest.mark.parametrize(("rule", "old", "new"), FORGOTTEN.values(), ids=FORGOTTEN.keys())
def test_what_may_not_be_forgotten(rule: Any, old: Any, new: Any) -> None:
    assert len(found(rule, old, new)) >= 1


def test_a_refusal_by_a_clock_that_was_set_back_is_not_kept() -> None:
    """And only where a clock was."""
    earlier = changed(ADMITTED, slot=600)
    assert found(oasis, REFUSED, earlier, jumped=True) == []
    assert found(oasis, REFUSED, earlier) != []


def test_a_schedule_is_read_by_slot() -> None:
    assert memory.schedule(PLAN, 668) == {668: [("worker", "n2", 2)]}
    assert memory.workers([["worker", 1, 2], ["ps", 0, 1]]) == 2


@pytest.mark.parametrize(("own", "faults"), [(True, 1), (False, 0)], ids=["this term's", "an older term's, late"])
def test_only_a_text_that_this_term_did_not_write_may_be_decided_anew(own: bool, faults: int) -> None:
    told = list[str]()
    texts = {"team/uid-a": json.dumps({"oasis": REFUSED})} if own else {}
    listed = {"team/uid-a": SimpleNamespace(uid="team/uid-a", memory="")}
    snapshot = SimpleNamespace(texts=texts, memory={}, jobs=listed)
    leader: Any = SimpleNamespace(name="a", leads=True, live=SimpleNamespace(ledger=SimpleNamespace(snapshot=snapshot)))

    async def judge() -> None:
        remembered = memory.Remembered(told.append, lambda: False)
        remembered.stepped(leader)
        for part in (REFUSED, ADMITTED):
            spec = SimpleNamespace(annotations={MEMORY: json.dumps({"oasis": part})})
            phase = SimpleNamespace(ended=False)
            job: Any = SimpleNamespace(uid="uid-a", key="team/a", suspended=False, spec=spec, phase=phase)
            remembered.see(job, False)

    loop = SimLoop()
    try:
        loop.run_until_complete(judge())
    finally:
        loop.close()
    assert len(told) == faults
