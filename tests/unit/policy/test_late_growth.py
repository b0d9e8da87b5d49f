"""A job whose reports show that it ends too soon to gain what a resize costs is not grown."""

import pytest

from policy.cluster.events import Reported
from policy.cluster.training import Report
from policy.systems import make_policy
from tests.builders import START, World, job, node

ELASTIC = job("a").workers(1, 4, asked=1, cpu=1)
POLICIES = ["kod2", "drs"]


def left_with(policy: str, done: float | None, **parameters: float) -> World:
    """Start a job of one to four workers with one worker; room for three more comes 100 s later.

    done: the fraction of the work that the job reports as done by then; None: it does not report.
    """
    world = World(make_policy(policy, **parameters)).nodes(node("n1", cpu=1)).start(ELASTIC)
    assert world.gang("a").workers == 1
    if done is not None:
        for at, share in ((50.0, done / 2), (100.0, done)):
            world.now = START + at
            world.do(Reported("job-a", Report(world.now, done=share)))
    world.now = START + 100.0
    world.see(node("n1", cpu=4))
    return world


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("done", "workers"),
    [(0.5, 4), (0.75, 1), (None, 4)],
    ids=["100 s are left: 75 are gained", "33 s are left: 25 are gained", "nobody knows"],
)
def test_a_job_grows_if_it_ends_sooner_by_more_than_a_restart(policy: str, done: float | None, workers: int) -> None:
    assert left_with(policy, done, restart_seconds=30.0).gang("a").workers == workers


@pytest.mark.parametrize("policy", POLICIES)
def test_the_papers_know_no_restart(policy: str) -> None:
    assert left_with(policy, 0.75, restart_seconds=0.0).gang("a").workers == 4
