"""A job that found no room is tried again only when the room has changed."""

from __future__ import annotations

import pytest

from policy.cluster.actions import Admit, Decision
from policy.cluster.gang import State
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import Snapshot
from policy.placement.ask import Ask
from policy.systems import baselines
from policy.systems.backfill import FifoBackfill
from policy.systems.base import Policy
from policy.systems.baselines import Fifo, KubeflowSpread
from policy.systems.queue import misfits
from tests.builders import JobBuilder, World, job, node


def wide(name: str) -> JobBuilder:
    """Return a job that needs six of a node's ten cores."""
    return job(name).workers(3, cpu=2)


@pytest.mark.parametrize("policy", [Fifo(), KubeflowSpread()])
def test_in_the_same_room_nobody_is_tried_twice(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(policy).nodes("n1")
    world.start(wide("a"))
    world.submit(wide("b"))
    tried: list[Ask] = []
    monkeypatch.setattr(baselines, "spread", lambda room, ask, *how: tried.append(ask))
    world.pass_time(1.0)
    assert tried == []
    world.see(node("n2", cpu=1))
    assert len(tried) == 1


@pytest.mark.parametrize("policy", [Fifo(), KubeflowSpread(), FifoBackfill()])
def test_it_starts_as_soon_as_there_is_room(policy: Policy) -> None:
    world = World(policy).nodes("n1")
    world.start(wide("a"))
    world.submit(wide("b"))
    world.pass_time(1.0)
    assert world.state("b") is State.WAITING
    world.end(wide("a"))
    assert world.state("b") is State.PLANNED


class Nobody(Policy):
    """A policy that admits no job."""

    name = "nobody"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        return Decision((), {one.uid: Verdict(Reason.NO_ROOM, "") for one in snapshot.waiting()})


@pytest.mark.parametrize(("policy", "name"), [(KubeflowSpread(), KubeflowSpread()), (FifoBackfill(), "FifoBackfill")])
def test_who_fits_alone_is_not_remembered_as_a_misfit_for_another_s_start(policy: Policy, name: object) -> None:
    world = World(Nobody()).nodes("n1")
    world.submit(wide("a"), wide("b"))
    decision = policy.decide(world.snapshot, world.now)
    assert [action.job_uid for action in decision.actions if isinstance(action, Admit)] == ["job-a"]
    assert misfits(world.snapshot, name) == set()
