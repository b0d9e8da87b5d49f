"""Classes whose values are made by a quicker constructor behave as standard frozen dataclasses do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass, field

import pytest

from policy.cluster.frozen import quick, replace
from policy.cluster.snapshot import Snapshot
from tests.builders import node


@quick
@dataclass(frozen=True, slots=True)
class Value:
    name: str
    amounts: Mapping[str, int] = field(default_factory=dict)
    whole: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "whole", sum(self.amounts.values()))


@dataclass(frozen=True)
class Plain:
    only: int


def test_made_as_any_dataclass_is() -> None:
    value = Value("a", amounts={"cpu": 2, "pods": 1})
    assert (value.name, value.amounts, value.whole) == ("a", {"cpu": 2, "pods": 1}, 3)
    assert Value("a").amounts is not Value("a").amounts
    assert value == Value("a", {"pods": 1, "cpu": 2})
    assert repr(value) == "Value(name='a', amounts={'cpu': 2, 'pods': 1}, whole=3)"


@pytest.mark.parametrize("made", [Value("a"), replace(Value("a"), name="b")])
def test_frozen_once_made(made: Value) -> None:
    assert type(made) is Value
    with pytest.raises(FrozenInstanceError):
        made.name = "c"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del made.amounts


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(TypeError):
        Value()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Value("a", size=3)  # type: ignore[call-arg]
    with pytest.raises(KeyError):
        replace(Value("a"), size=3)  # type: ignore[call-arg]


def test_copied_and_sent_to_another_process() -> None:
    value = Value("a", {"cpu": 2})
    for twin in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert twin == value
        assert type(twin) is Value


def test_replace_does_what_the_standard_one_does() -> None:
    value = Value("a", {"cpu": 2})
    assert replace(value, amounts={"cpu": 5}) == dataclasses.replace(value, amounts={"cpu": 5})
    assert replace(value, amounts={"cpu": 5}).whole == 5
    assert value.whole == 2
    assert replace(Plain(1), only=2) == Plain(2)


def test_a_snapshot_with_other_maps_has_their_index() -> None:
    changed = replace(Snapshot(), nodes={"n": node("n")})
    assert list(changed.index.room.nodes) == ["n"]
