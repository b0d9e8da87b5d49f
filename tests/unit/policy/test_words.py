"""Amounts, numbers and lists are written as text for people."""

import pytest

from policy.cluster.resources import Resources
from policy.cluster.words import counted, in_words, lack_in_words, listed

SAID = {
    "3.5 cpu, 8 GiB memory": {"cpu": 3500, "memory": 8 * 2**30, "pods": 3},
    "512 MiB memory": {"memory": 512 * 2**20},
    "1.5 KiB memory": {"memory": 1536},
    "-2 GiB memory": {"memory": -2 * 2**30},
    "1 EiB memory": {"memory": 2**60},
    "100 B memory": {"memory": 100},
    "100 GiB ephemeral-storage, 2 nvidia.com/gpu": {"ephemeral-storage": 100 * 2**30, "nvidia.com/gpu": 2},
    "": {"pods": 1},
}


@pytest.mark.parametrize(("said", "amounts"), SAID.items())
def test_what_is_said(said: str, amounts: dict[str, int]) -> None:
    assert in_words(Resources(amounts)) == said


@pytest.mark.parametrize(
    ("said", "number", "noun"),
    [("1 pod", 1, "pod"), ("0 pods", 0, "pod"), ("1,200 workers", 1200, "worker"), ("2 ps", 2, "ps")],
)
def test_a_number_has_its_noun_in_the_right_form(said: str, number: int, noun: str) -> None:
    assert counted(number, noun) == said


def test_pods_that_are_missing_are_counted() -> None:
    assert (lack_in_words(Resources({"pods": 1})), lack_in_words(Resources({"pods": 3}))) == ("1 pod", "3 pods")


def test_a_long_list_says_how_many_it_leaves_out() -> None:
    assert (listed(["a", "b"], 2), listed(["a", "b", "c"], 2), listed([], 2)) == ("a, b", "a, b and 1 more", "")
