"""Values of the classes in `policy` are written as plain JSON and read back; no other class is made from a file."""

import json
import math
from dataclasses import dataclass
from typing import Any

import pytest

from extender.state.codec import CodecError, plain, value_of
from policy.cluster.gang import Gang, HeldBinds, State
from policy.cluster.job import Slot
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import Resources
from policy.systems import SYSTEMS, make_policy
from policy.systems.kod2 import Gate, Kod2

SLOT = Slot("worker", 3)


@dataclass
class Foreign:
    number: int


VALUES: dict[str, Any] = {
    "a gang": Gang("j", State.PLANNED, nodes={SLOT: "n", Slot("ps", 0): "m"}, waits_for=("a", "b")),
    "binds that are held": HeldBinds({"p": SLOT}, 1.5, 2.5),
    "a verdict": Verdict(Reason.NO_ROOM, "cpu 3"),
    "amounts": Resources({"cpu": 3, "memory": 2**40}),
    "a policy": Kod2(gate=Gate.STRICT, starve_limit=1e-9),
    "keys that are pairs": {("job", "node"): 1.5},
    "a set": frozenset({"b", "a"}),
    "no end": math.inf,
    "a list in a tuple": ([1, 2], (3,), None, True),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_what_is_written_is_read_back(value: Any) -> None:
    found = value_of(json.loads(json.dumps(plain(value), allow_nan=False)))
    assert found == value
    assert type(found) is type(value)


def test_named_tuples_are_keys_again() -> None:
    found = value_of(json.loads(json.dumps(plain({SLOT: "n"}))))
    assert [str(key) for key in found] == ["worker-3"]


@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_every_policy_can_be_written(name: str) -> None:
    policy = make_policy(name)
    assert value_of(json.loads(json.dumps(plain(policy)))) == policy


def test_sets_are_written_in_one_order() -> None:
    assert plain(frozenset("hgfedcba"))["items"] == list("abcdefgh")


@pytest.mark.parametrize(
    "kind",
    ["os:system", "subprocess:Popen", "policy.step:step", "policy.nowhere:X", "policy.systems:SYSTEMS", "Gang", 3],
)
def test_only_value_classes_of_policy_are_made(kind: object) -> None:
    with pytest.raises(CodecError, match="is not allowed; allowed:"):
        value_of({"is": kind, "value": "x"})


def test_a_class_that_lacks_a_field_is_refused() -> None:
    with pytest.raises(CodecError, match=r"policy.cluster.gang:Gang: "):
        value_of({"is": "policy.cluster.gang:Gang"})
    with pytest.raises(CodecError, match=r"policy.cluster.gang:State: "):
        value_of({"is": "policy.cluster.gang:State", "value": "asleep"})


def test_what_is_not_of_policy_is_not_written() -> None:
    with pytest.raises(CodecError, match="it is no class of policy"):
        plain(Foreign(3))
    with pytest.raises(CodecError, match=r"builtins.object cannot be written"):
        plain(object())
