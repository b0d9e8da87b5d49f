"""Tests of stalled connections to the real service: all are closed, and filter is answered meanwhile.

`benchmarks.stalled` measures how soon they are closed, and how much they delay filter calls.
"""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.stalled import filter_seconds, stall_many, stalled
from benchmarks.verbs import serving

NODES, PODS, MANY, CALLS = 100, 1_000, 200, 300


@pytest.mark.full
def test_stalled_connections_are_closed_and_filter_is_answered_meanwhile() -> None:
    closed: list[float] = []
    with serving(NODES, PODS) as server:
        with stalled(server.said["port"], MANY, closed):
            answered = len(filter_seconds(server, NODES, CALLS))
        asyncio.run(stall_many(server.said["port"], 1))
    assert answered == CALLS
    assert len(closed) >= MANY
