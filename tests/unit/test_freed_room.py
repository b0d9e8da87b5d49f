"""The check of freed room finds violations: it is given made-up observations, some of them with one fault."""

from typing import Any

import pytest

from policy.cluster.actions import Admit, Released, Resize
from policy.cluster.job import Slot
from policy.cluster.reasons import Reason
from tests.e2e.freedroom import Promise, broken, promises
from tests.e2e.observer import Sighting

CORES = 10.0
PROMISE = Promise(100.0, "heavy", {("worker", 0): "n1", ("worker", 1): "n1"}, frozenset({"light-8", "light-9"}))


def seen(at: float, job: str, index: int = 0, node: str = "n1", cores: float = 2.0, **other: Any) -> Sighting:
    flags: Any = {"uid": f"{job}-{index}", "phase": "Running", "terminating": False, "gone": False} | other
    return Sighting(at, job, "worker", index, node=node, cores=cores, **flags)


FULL = [seen(0, "light", cores=6.0), *(seen(0, "light", index) for index in (8, 9))]
GOING = [seen(1, "light", index, terminating=True) for index in (8, 9)]
FREED = [*FULL, *GOING, *(seen(2, "light", index, gone=True) for index in (8, 9))]
TAKEN = [seen(3, "heavy", index) for index in (0, 1)]
# these members belong to an earlier plan
BEFORE = [seen(-1, "heavy", index, "n2", uid=f"old-{index}") for index in (0, 1)]

KEPT = {
    "as promised": [*FREED, *TAKEN],
    "bound as soon as the one before it ended": [*FULL, seen(2, "light", 8, phase="Succeeded"), *TAKEN],
    "others on other nodes": [*FREED, seen(2.5, "small", node="n2"), *TAKEN],
    "others afterwards": [*FREED, *TAKEN, seen(4, "light", gone=True), seen(5, "small")],
    "others in what is free besides": [*FREED, seen(2.1, "light", gone=True), seen(2.5, "small"), *TAKEN],
    "elsewhere by an earlier plan": [*BEFORE, *FREED, *TAKEN],
}
BROKEN = {
    "taken by another": [*FREED, seen(2.5, "small"), *TAKEN],
    "taken between the two": [*FREED, TAKEN[0], seen(3.5, "small"), TAKEN[1]],
    "given to another node": [*FREED, TAKEN[0], seen(3, "heavy", 1, "n2")],
    "never used": [*FREED, TAKEN[0]],
}


@pytest.mark.parametrize("story", KEPT.values(), ids=KEPT.keys())
def test_a_promise_is_kept(story: list[Sighting]) -> None:
    assert list(broken(PROMISE, story, CORES, epoch=100.0)) == []


@pytest.mark.parametrize("story", BROKEN.values(), ids=BROKEN.keys())
def test_a_promise_is_broken(story: list[Sighting]) -> None:
    assert len(list(broken(PROMISE, story, CORES, epoch=100.0))) == 1


def test_a_plan_that_was_given_up_promises_nothing() -> None:
    slot = Slot("worker", 0)
    given_up = (Admit("a", 1, {slot: "n1"}, waits_for={"p"}), Released("a", "plan-1", Reason.BARRIER_TIMEOUT))
    others = (Resize("b", 2, {slot: "n2"}, waits_for={"q"}), Admit("c", 1, {slot: "n3"}))
    effects = [(1.0, effect) for effect in (*given_up, *others)]
    assert promises(effects, str.upper) == [Promise(1.0, "B", {("worker", 0): "n2"}, frozenset({"q"}))]
