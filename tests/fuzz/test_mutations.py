"""Tests that damaging a value does not change the originals, so that each case can be replayed."""

from __future__ import annotations

import json
import random

from tests.fuzz.mutations import JUNK, hurt
from tests.fuzz.service import tfjob


def test_hurting_a_value_again_and_again_changes_neither_it_nor_the_junk() -> None:
    value = tfjob("runs")
    before = repr(value), repr(JUNK)
    for seed in range(300):
        # A value that contained itself could not be written as JSON.
        json.dumps(hurt(value, random.Random(seed), most=30))
    assert (repr(value), repr(JUNK)) == before
