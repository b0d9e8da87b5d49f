"""Test with made-up annotations that the checks of what policies remember report each kind of violation."""

import copy
import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest

from extender.kube.jobkinds import MEMORY
from lab.virtual.clocks import SimLoop, sleep
from policy.systems.growth import Category, Progress, write_progress
from tests.simulation import memory
from tests.simulation.memory import PROGRESS, oasis, specon

Json = dict[str, Any]
PLAN: list[Any] = [
    [666, 1, 3, 4, {"cpu": 1000}, [], None, [1, 1, 4]],
    0.7,
    ["n1", "n2"],
    [[667, 2, [["worker", 1, 2]]]],
]
ADMITTED: Json = {"slot": 666, "plan": PLAN, "seen": [666, 8.3, {"cpu": 1000}, {}, 4, -0.2]}
REFUSED: Json = {"rejected": "payoff -1: worth 2, price 3", "refused": 668}
GROWTH = [10_126.0, "converged", 1.0, 0.1, 0.1, 10_126.0, 0.002, 10_120.0, False, False, None]


def changed(text: Json, **values: Any) -> Json:
    return {key: value for key, value in (copy.deepcopy(text) | values).items() if value is not None}


def growth_memory(**values: Any) -> list[Any]:
    return list((dict(zip(PROGRESS, GROWTH, strict=True)) | values).values())


MOVED = growth_memory(since=10_130.0, value=None, at=None, growth=None, moved=True, restart=10_130.0)
BALANCED = growth_memory(since=10_130.0, value=None, at=None, growth=None, balanced=True, restart=10_130.0)


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
    "told more": (specon, GROWTH, growth_memory(since=10_200.0, at=10_200.0, best=0.05, growth=0.001)),
    "grows again": (specon, GROWTH, growth_memory(at=10_200.0, category="progressing", growth=2.0, converged=None)),
    "moved": (specon, GROWTH, MOVED),
    "moved, and grows": (specon, GROWTH, [*MOVED[:4], 0.1, 10_150.0, 2.0, *MOVED[7:]]),
    "still on its way": (specon, MOVED, [*MOVED[:-1], 10_140.0]),
    "let stay": (specon, GROWTH, growth_memory(moved=True)),
    "let stay, then moved for balance": (specon, growth_memory(moved=True), [*BALANCED[:8], True, *BALANCED[9:]]),
}
FORGOTTEN: Mapping[str, tuple[Any, Any, Any]] = {
    "a refusal": (oasis, REFUSED, changed(ADMITTED)),
    "why it was refused": (oasis, REFUSED, changed(REFUSED, rejected="payoff -2: worth 2, price 4")),
    "when it was refused": (oasis, REFUSED, changed(REFUSED, refused=669)),
    "all of an admitted job": (oasis, ADMITTED, None),
    "its plan": (oasis, ADMITTED, changed(ADMITTED, plan=None)),
    "what it was admitted as": (oasis, ADMITTED, changed(ADMITTED, plan=[[666, 2, *PLAN[0][2:]], *PLAN[1:]])),
    "what the prices keep of it": (oasis, ADMITTED, changed(ADMITTED, seen=[667, *ADMITTED["seen"][1:]])),
    "its growth": (specon, GROWTH, growth_memory(growth=None)),
    "its last sample": (specon, GROWTH, growth_memory(at=None)),
    "that it told something later": (specon, GROWTH, growth_memory(at=10_100.0)),
    "its category": (specon, GROWTH, growth_memory(category="progressing")),
    "since when it has converged": (specon, GROWTH, growth_memory(converged=10_126.0)),
    "its first report": (specon, GROWTH, growth_memory(first=0.5)),
    "its best report": (specon, GROWTH, growth_memory(best=0.2)),
    "all of its reports": (specon, GROWTH, None),
    "that it was to stay": (specon, growth_memory(moved=True), GROWTH),
    "that it was moved": (specon, MOVED, [*MOVED[:-1], None]),
    "that it was moved for balance": (specon, BALANCED, [*BALANCED[:9], False, BALANCED[10]]),
    "that it has had its only move": (specon, MOVED, [*MOVED[:9], True, 10_200.0]),
    "that it has had its only move, for balance": (specon, BALANCED, [*BALANCED[:8], True, *BALANCED[9:]]),
    "when it was moved": (specon, MOVED, [*MOVED[:-1], 10_120.0]),
}


@pytest.mark.parametrize(("rule", "old", "new"), KEPT.values(), ids=KEPT.keys())
def test_what_may_become_of_a_text(rule: Any, old: Any, new: Any) -> None:
    assert found(rule, old, new) == []


@pytest.mark.parametrize(("rule", "old", "new"), FORGOTTEN.values(), ids=FORGOTTEN.keys())
def test_what_may_not_be_forgotten(rule: Any, old: Any, new: Any) -> None:
    assert len(found(rule, old, new)) >= 1


def test_a_refusal_by_a_clock_that_was_set_back_is_not_kept() -> None:
    """A rejection may be forgotten only if a clock was set back."""
    earlier = changed(ADMITTED, slot=600)
    assert found(oasis, REFUSED, earlier, jumped=True) == []
    assert found(oasis, REFUSED, earlier) != []


def test_a_growth_by_a_clock_that_was_set_back_is_not_kept() -> None:
    """The growth may be forgotten if a clock was set back, but a move and the progress of the metric may not."""
    for new in (growth_memory(value=None, at=None, growth=None), growth_memory(growth=None)):
        assert found(specon, GROWTH, new, jumped=True) == []
        assert found(specon, GROWTH, new) != []
    assert found(specon, MOVED, [*MOVED[:-1], None], jumped=True) != []
    assert found(specon, GROWTH, growth_memory(best=0.2), jumped=True) != []


def test_the_fields_are_those_that_specon_writes() -> None:
    assert [field.name for field in fields(Progress)] == list(memory.PROGRESS)
    progress = Progress(1.0, Category.WATCHING, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, True, False, 8.0)
    assert write_progress(progress) == [1.0, "watching", 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, True, False, 8.0]


def test_a_schedule_is_read_by_slot() -> None:
    assert memory.schedule(PLAN, 668) == {668: [("worker", "n2", 2)]}
    assert memory.workers([["worker", 1, 2], ["ps", 0, 1]]) == 2


@pytest.mark.parametrize(("own", "faults"), [(True, 1), (False, 0)], ids=["this term's", "an older term's, late"])
def test_only_a_text_that_this_term_did_not_write_may_be_decided_anew(own: bool, faults: int) -> None:
    violations = list[str]()

    async def judge() -> None:
        remembered = memory.Remembered(violations.append, lambda: False)
        remembered.stepped(leader("a", wants={"oasis": REFUSED} if own else None))
        for part in (REFUSED, ADMITTED):
            remembered.see(job({"oasis": part}), False)

    played(judge)
    assert len(violations) == faults


def leader(name: str, wants: Json | None = None, knows: Json | None = None) -> Any:
    """Return a fake process that leads, with the annotation that it wants for job a, and the annotation that it has
    read.
    """
    texts = {"team/uid-a": json.dumps(wants)} if wants else {}
    listed = {"team/uid-a": SimpleNamespace(uid="team/uid-a", memory=json.dumps(knows) if knows else "")}
    snapshot = SimpleNamespace(texts=texts, memory={}, jobs=listed)
    return SimpleNamespace(
        name=name, incarnation=1, leads=True, live=SimpleNamespace(ledger=SimpleNamespace(snapshot=snapshot))
    )


def job(text: Json) -> Any:
    spec = SimpleNamespace(annotations={MEMORY: json.dumps(text)})
    phase = SimpleNamespace(ended=False)
    return SimpleNamespace(uid="uid-a", key="team/a", suspended=False, spec=spec, phase=phase)


def played(judge: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = SimLoop()
    try:
        loop.run_until_complete(judge())
    finally:
        loop.close()


@pytest.mark.parametrize("kept", [GROWTH, MOVED], ids=["its growth", "that it was moved"])
def test_what_specon_forgets_at_a_restart_is_found_and_what_was_compared_is_counted(kept: list[Any]) -> None:
    violations = list[str]()
    anew = [10_150.0, "progressing", *[None] * 6, False, False, None]

    async def judge() -> None:
        remembered = memory.Remembered(violations.append, lambda: False)
        remembered.stepped(leader("a", wants={"specon": kept}))
        remembered.see(job({"specon": kept}), False)
        assert not remembered.texts.total()
        await sleep(1.0)
        remembered.stepped(leader("b", wants={"specon": anew}, knows={"specon": kept}))
        # This process does not know yet that another one leads.
        remembered.stepped(leader("a", wants={"specon": kept}))
        remembered.see(job({"specon": anew}), False)
        assert remembered.texts == {"growth-kept": kept is GROWTH, "move-kept": kept is MOVED}

    played(judge)
    assert violations
