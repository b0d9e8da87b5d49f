"""Workers that were taken for another job and do not go are reported at the job that they were taken from."""

from dataclasses import replace

import pytest

from policy.cluster.actions import ShrinkStalled
from policy.cluster.draft import Draft
from policy.cluster.gang import State
from policy.transitions.deadlines.freeing import stalled_shrinks
from tests.builders import PodGone, World, job, node

WIDE = job("wide").workers(1, 4, asked=4, cpu=2)
THIN = job("thin").workers(1, 2, asked=2, cpu=1)


def awaiting() -> World:
    """Return the gang of heavy, whose plan waits for three workers of job wide and one of job thin."""
    world = World().nodes(node("n1", cpu=10)).start(WIDE.with_(utility=0.1), THIN.with_(utility=0.2).arrived(1))
    world.submit(job("heavy").workers(1, cpu=7).with_(utility=99.0).arrived(10))
    assert world.state("heavy") is State.PLANNED
    assert {uid.removeprefix("uid-") for uid in world.gang("heavy").waits_for} == {
        "wide-worker-1", "wide-worker-2", "wide-worker-3", "thin-worker-1",
    }  # fmt: skip
    return world


def told(world: World) -> list[object]:
    return list(stalled_shrinks(Draft(world.snapshot), world.gang("heavy")))


def test_each_job_is_told_how_many_of_its_workers_have_not_gone() -> None:
    world = awaiting()
    world.do(PodGone("uid-wide-worker-3"))
    assert told(world) == [
        ShrinkStalled("job-thin", 1, 1, on_behalf_of="job-heavy"),
        ShrinkStalled("job-wide", 1, 2, on_behalf_of="job-heavy"),
    ]


def test_a_job_whose_workers_have_gone_is_told_nothing() -> None:
    world = awaiting()
    world.do(*(PodGone(f"uid-wide-worker-{index}") for index in (1, 2, 3)))
    assert told(world) == [ShrinkStalled("job-thin", 1, 1, on_behalf_of="job-heavy")]
    world.do(PodGone("uid-thin-worker-1"))
    assert told(world) == []


def test_a_job_that_has_ended_meanwhile_is_told_nothing_though_its_pods_stay() -> None:
    world = awaiting()
    world.see(WIDE.with_(finished=True).done())
    assert world.state("wide") is State.COMPLETED
    assert told(world) == [ShrinkStalled("job-thin", 1, 1, on_behalf_of="job-heavy")]


@pytest.mark.parametrize("awaited", ["uid-wide-worker-0", "uid-nobody"])
def test_pods_that_no_shrink_has_taken_are_none(awaited: str) -> None:
    """The gang waits for a pod that no shrink takes, such as one of a migrating job, or for a pod that
    does not exist.
    """
    world = awaiting()
    gang = replace(world.gang("heavy"), waits_for=(awaited,))
    assert stalled_shrinks(Draft(world.snapshot), gang) == []
