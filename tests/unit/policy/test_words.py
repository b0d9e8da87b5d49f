"""Amounts as people say them."""

import pytest

from policy.cluster.resources import Resources
from policy.cluster.words import in_words

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
