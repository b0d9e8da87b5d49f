"""FIFO with EASY backfill: younger jobs pass the oldest one only where they do not delay it."""

from __future__ import annotations

import pytest

from policy.cluster.events import Reported
from policy.cluster.gang import State
from policy.cluster.reasons import Reason
from policy.cluster.training import Report, Training
from policy.systems.backfill import FifoBackfill
from policy.systems.base import Policy
from policy.systems.baselines import KubeflowSpread
from tests.builders import JobBuilder, World, job


def trains(name: str, seconds: float, workers: int, cpu: int = 2) -> JobBuilder:
    """Return a job that trains for so many seconds with the workers that it asks for."""
    return job(name, training=Training(seconds=seconds * workers)).workers(workers, cpu=cpu)


def blocked(policy: Policy, runs_for: float = 1000.0) -> World:
    """Let job ``a`` run on 6 of 10 cores for ``runs_for`` seconds, while job ``b`` waits for 8 of them."""
    made = World(policy).nodes("n1")
    made.start(trains("a", runs_for, 3))
    made.submit(trains("b", 500.0, 4).arrived(1))
    assert made.state("b") is State.WAITING
    return made


@pytest.mark.parametrize(("seconds", "state"), [(900.0, State.PLANNED), (1100.0, State.WAITING)])
def test_who_ends_before_the_oldest_can_start_passes_it(seconds: float, state: State) -> None:
    made = blocked(FifoBackfill())
    made.submit(trains("c", seconds, 2).arrived(2))
    assert made.state("c") is state


def test_who_fits_beside_the_oldest_passes_it_however_long_it_takes() -> None:
    made = blocked(FifoBackfill())
    made.submit(trains("c", 1e6, 1).arrived(2))
    assert made.state("c") is State.PLANNED
    made.submit(trains("d", 1e6, 1).arrived(3))
    assert made.state("d") is State.WAITING, "what is free beside the oldest is given away once"
    verdict = made.snapshot.verdicts["job-d"]
    assert (verdict.reason, verdict.behind) == (Reason.BEHIND, "job-b")


def test_without_a_reservation_the_same_job_passes() -> None:
    made = blocked(KubeflowSpread())
    made.submit(trains("c", 1100.0, 2).arrived(2))
    assert made.state("c") is State.PLANNED


def test_what_a_job_has_reported_counts_and_not_what_it_has_said_before() -> None:
    made = blocked(FifoBackfill(), runs_for=1000.0)
    made.do(Reported("job-a", Report(made.now, 1.0, 0.2)))
    made.submit(trains("c", 900.0, 2).arrived(2))
    assert made.state("c") is State.WAITING, "a is done in 800 s"


def test_jobs_that_say_nothing_are_passed_only_beside_the_reservation() -> None:
    made = World(FifoBackfill()).nodes("n1")
    made.start(job("a").workers(3, cpu=2))
    made.submit(job("b").workers(4, cpu=2).arrived(1), job("c").workers(2, cpu=2).arrived(2))
    made.submit(job("d").workers(1, cpu=2).arrived(3))
    assert [made.state(name) for name in "bcd"] == [State.WAITING, State.WAITING, State.PLANNED]


def test_nobody_waits_for_a_job_that_no_end_would_make_room_for() -> None:
    """Job b asks for more than the cluster has, and is only not refused because its minimum would fit."""
    made = World(FifoBackfill()).nodes("n1")
    made.submit(job("b").workers(1, 9, asked=9, cpu=2).arrived(1), trains("c", 1e6, 2).arrived(2))
    assert [made.state(name) for name in "bc"] == [State.WAITING, State.PLANNED]
