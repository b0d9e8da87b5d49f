"""Amounts as people say them."""

import pytest

from policy.cluster.resources import Resources
from policy.cluster.words import in_words

SAID = {
    "3.5 cpu, 8 GiB": {"cpu": 3500, "memory": 8 * 2**30, "pods": 3},
    "512 MiB": {"memory": 512 * 2**20},
    "1.5 KiB": {"memory": 1536},
    "-2 GiB": {"memory": -2 * 2**30},
    "100 B": {"memory": 100},
    "100 GiB ephemeral-storage, 2 nvidia.com/gpu": {"ephemeral-storage": 100 * 2**30, "nvidia.com/gpu": 2},
    "": {"pods": 1},
}


@pytest.mark.parametrize(("said", "amounts"), SAID.items())
def test_what_is_said(said: str, amounts: dict[str, int]) -> None:
    assert in_words(Resources(amounts)) == said
