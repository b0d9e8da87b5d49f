"""Text for people: names that users chose are made harmless, and amounts are short."""

from typing import get_args

import pytest

from extender.page.formatting import CAUSES, clean, duration, in_line, needs, percent, ranges
from policy.cluster.amounts import amounts
from policy.cluster.events import Event
from policy.cluster.resources import Resources
from tests.builders import GIB, res

NAMES = {
    "plain": ("team/bert-1", "team/bert-1"),
    "controls": ("a\x00b\x1bc", "a\ufffdb\ufffdc"),
    "a new line": ("a\nb", "a\ufffdb"),
    "right to left": ("safe\u202egnp", "safe\ufffdgnp"),
    "isolates and marks": ("\u2066x\u200f", "\ufffdx\ufffd"),
    "half a character": ("x\ud800", "x\ufffd"),
    "another script stays": ("задача-學習", "задача-學習"),
    "markup is left to the template": ("<b>", "<b>"),
}


@pytest.mark.parametrize(("given", "shown"), NAMES.values(), ids=NAMES.keys())
def test_what_cannot_be_seen_or_turns_the_line_is_replaced(given: str, shown: str) -> None:
    assert clean(given) == shown


def test_a_long_name_is_cut() -> None:
    assert clean("x" * 10_240, 10) == "x" * 10 + "…"


@pytest.mark.parametrize(
    ("seconds", "told"), [(-3, "0s"), (59.9, "59s"), (60, "1m"), (3900, "1h 05m"), (90_000, "1d 1h")]
)
def test_a_duration_is_short(seconds: float, told: str) -> None:
    assert duration(seconds) == told


def test_needs_are_told_cpu_first_and_without_the_count_of_pods() -> None:
    assert needs(res(2.5, 12, pods=3, **{"nvidia.com/gpu": 2})) == "2.5 cpu · 12 GiB · 2 gpu"


LACKS = {
    "one pod": (res(0, pods=1), "1 pod"), "pods": (res(0, pods=2), "2 pods"),
    "a host port": (res(0, **{"hostport/TCP/8080": 1}), "host port TCP/8080"),
    "amounts": (res(2.5, 12, **{"nvidia.com/gpu": 1}), "2.5 cpu · 12 GiB · 1 gpu"),
}  # fmt: skip


@pytest.mark.parametrize(("lacks", "told"), LACKS.values(), ids=LACKS.keys())
def test_what_a_node_lacks_is_told_with_pods_and_ports(lacks: Resources, told: str) -> None:
    found = amounts(Resources({name: amount for name, amount in lacks.amounts.items() if amount}))
    assert in_line(found, pods=True) == told
    assert "pod" not in in_line(found)
    assert needs(res(memory=3 * 1024)) == "3 TiB"
    assert res(memory=1)["memory"] == GIB


def test_shares_and_ranges() -> None:
    assert (percent(1, 3), percent(0, 0)) == ("33 %", "–")
    assert ranges([7, 0, 1, 2]) == "0–2, 7"


def test_every_kind_of_event_has_its_words() -> None:
    assert CAUSES.keys() == {kind.__name__ for kind in get_args(Event)}
