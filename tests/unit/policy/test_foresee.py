"""Forecasts of when a waiting job starts: computed from running jobs' reports by the same policy, or
stated as unknown.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from policy.answers.foresee import foresee
from policy.cluster.events import Reported
from policy.cluster.training import Report, Training
from policy.systems import make_policy
from policy.systems.kod2 import Kod2
from tests.builders import START, World, guest, job, node


def busy(policy: str = "kod2", seconds: float | None = 100) -> World:
    """Fill a node with a running job whose two workers still train for ``seconds`` (None: unknown);
    another job waits.
    """
    world = World(make_policy(policy)).nodes("n1")
    work = None if seconds is None else Training(batches=int(2 * seconds))
    world.start(job("runs", training=work).workers(2, cpu=5, memory=1))
    world.submit(job("waits").workers(2, cpu=4, memory=1).arrived(1))
    return world


def test_the_end_of_a_running_job_by_its_training() -> None:
    world = busy()
    start = foresee(world.snapshot, world.policy, world.now)["job-waits"]
    assert start.at == pytest.approx(START + 100)
    assert start.basis == "if no other job comes, once team/runs has ended"


def test_what_has_been_trained_is_not_waited_for_again() -> None:
    world = busy()
    world.now += 40
    start = foresee(world.snapshot, world.policy, world.now)["job-waits"]
    assert start.at == pytest.approx(START + 100)


def test_reports_tell_it_better() -> None:
    world = busy()
    for at, done in ((10, 0.1), (20, 0.3)):  # these reports make 2 % of the work a second
        world.now = START + at
        world.do(Reported("job-runs", Report(world.now, None, done)))
    start = foresee(world.snapshot, world.policy, world.now)["job-waits"]
    assert start.at == pytest.approx(START + 20 + 0.7 / 0.02)


def test_who_does_not_tell_is_named_and_nothing_is_made_up() -> None:
    world = busy(seconds=None)
    start = foresee(world.snapshot, world.policy, world.now)["job-waits"]
    assert (start.at, start.basis) == (
        None,
        "neither reports nor kohort.dev/training tell how long team/runs will train",
    )


def test_what_no_end_helps_is_said_so() -> None:
    world = busy()
    world.submit(job("giant").workers(1, cpu=11).arrived(2))
    assert foresee(world.snapshot, world.policy, world.now)["job-giant"].basis == (
        "the gang would not fit on the empty cluster"
    )


def test_those_ahead_take_room_first_and_their_own_end_is_waited_for() -> None:
    world = busy()
    second = job("second", training=Training(batches=100), utility=0.001).workers(2, cpu=4, memory=1).arrived(2)
    world.submit(second)
    starts = foresee(world.snapshot, world.policy, world.now)
    first = starts["job-waits"]
    assert first.at == pytest.approx(START + 100)
    assert starts["job-second"].at is None  # the job before it does not state how long it will train
    assert "how long team/waits will train" in starts["job-second"].basis


def test_a_job_that_says_only_what_its_metric_is_like_does_not_tell_how_long_it_trains() -> None:
    world = World().nodes("n1").start(job("runs", training=Training(alpha=0.05)).workers(1, cpu=8))
    world.submit(job("waits").workers(1, cpu=8).arrived(1))
    start = foresee(world.snapshot, world.policy, world.now)["job-waits"]
    assert (start.at, start.basis) == (
        None,
        "neither reports nor kohort.dev/training tell how long team/runs will train",
    )


def test_time_alone_may_be_enough() -> None:
    world = World().nodes("n1")
    world.submit(job("a").workers(1))
    # no member calls bind, so the plan is given up and the gang backs off
    world.pass_time(world.snapshot.rules.plan_seconds)
    start = foresee(world.snapshot, world.policy, world.now)["job-a"]
    assert start.at == pytest.approx(world.gang("a").tries.not_before, abs=1.5)
    assert start.basis == "if no other job comes, once its back-off is over"


def test_a_job_that_comes_first_once_it_starves_is_told_so() -> None:
    world = World(Kod2(starve_limit=100)).nodes(node("n1", cpu=6)).start(job("a").workers(1, 3, cpu=2))
    world.submit(job("b", utility=0.001).workers(1, cpu=2).arrived(1))
    start = foresee(world.snapshot, world.policy, world.now)["job-b"]
    assert start.at == pytest.approx(START + 101, abs=2)
    assert "starvation limit of 100 s" in start.basis


def test_growth_brings_the_end_nearer() -> None:
    slow = World().nodes(node("n1", cpu=4))
    slow.start(job("runs", training=Training(batches=400)).workers(2, 4, asked=2, cpu=2, memory=1))
    slow.submit(job("waits").workers(2, cpu=2, memory=1).arrived(1))
    starts = foresee(slow.snapshot, slow.policy, slow.now)
    assert starts["job-waits"].at == pytest.approx(START + 200)


@pytest.mark.parametrize("policy", ["kod2", "drs", "dragon", "specon", "oasis", "drf", "fifo"])
def test_what_is_foretold_comes_true(policy: str) -> None:
    """The running job ends at the time that it stated, and the waiting job starts at that time and not before."""
    world = busy(policy)
    start = foresee(world.snapshot, world.policy, world.now)["job-waits"]
    assert start.at is not None, start.basis
    while world.now < start.at - 10:
        world.pass_time(10)
        assert not world.gang("waits").admitted
    world.now = start.at
    if "runs" in start.basis:
        world.end(world.snapshot.jobs["job-runs"])
    else:
        world.pass_time(0)
    assert world.gang("waits").admitted


def test_nothing_is_changed_by_asking() -> None:
    world = busy()
    before = replace(world.snapshot)
    foresee(world.snapshot, world.policy, world.now)
    assert (before.gangs, before.pods, before.jobs) == (
        world.snapshot.gangs, world.snapshot.pods, world.snapshot.jobs,
    )  # fmt: skip


def test_pods_of_others_never_end() -> None:
    world = World().nodes("n1")
    world.see(guest("other", "n1", cpu=8))
    world.submit(job("waits").workers(2, cpu=4, memory=1))
    assert foresee(world.snapshot, world.policy, world.now)["job-waits"].at is None


def test_several_that_do_not_tell_are_several() -> None:
    world = World().nodes(node("n1", cpu=4))
    world.start(job("a").workers(1, cpu=2), job("b").workers(1, cpu=2))
    world.submit(job("waits").workers(1, cpu=2).arrived(1))
    start = foresee(world.snapshot, world.policy, world.now)["job-waits"]
    assert start.basis == "neither reports nor kohort.dev/training tell how long team/a, team/b will train"
