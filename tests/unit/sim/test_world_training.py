"""Simulated training: which workers compute, how fast, and how much time a resize costs."""

import pytest

from lab.sim.objects import JobPhase
from lab.sim.pods.world import SimulatedWorld
from tests.unit.sim.worlds import SUCCEEDED, bind_all, done, job, running, slots, spec, submitted


def ended(made: SimulatedWorld) -> float | None:
    return job(made).ended


def test_one_worker_does_its_work_in_just_that_time() -> None:
    made = running(spec(workers=1, work=100.0))
    made.advance(1000.0)
    assert ended(made) == 101.0


def test_nothing_is_computed_while_the_ps_is_missing() -> None:
    made = submitted(spec(workers=2))
    made.bind("default", "a-worker-0", "n1")
    made.bind("default", "a-worker-1", "n1")
    made.advance(500.0)
    assert done(made) == 0.0
    made.bind("default", "a-ps-0", "n1")
    made.advance(511.0)
    assert done(made) == pytest.approx(10 * 2 / 1.1)


def test_nothing_is_computed_below_the_minimum_and_more_than_that_need_not_run() -> None:
    made = submitted(spec(workers=4, least=2))
    made.bind("default", "a-ps-0", "n1")
    made.bind("default", "a-worker-0", "n1")
    made.advance(100.0)
    assert (done(made), made.progress(job(made).uid).members) == (0.0, ())
    made.bind("default", "a-worker-3", "n1")
    made.advance(111.0)
    assert done(made) == pytest.approx(10 * 2 / 1.1)


def test_remote_workers_count_for_less() -> None:
    made = submitted(spec(workers=2), remote=0.5)
    for name, where in [("a-ps-0", "n1"), ("a-worker-0", "n1"), ("a-worker-1", "n2")]:
        made.bind("default", name, where)
    made.advance(11.0)
    assert done(made) == pytest.approx(10 * 1.5 / 1.1)


def test_a_resize_changes_the_rate_from_then_on() -> None:
    made = running(spec(workers=2, work=110.0))
    made.advance(12.0)
    made.patch_workers("default", "a", 1)
    made.advance(1000.0)
    # 11 s at 2/1.1 make 20 of 110; the other 90 take 90 s.
    assert ended(made) == pytest.approx(12.0 + 90.0)


def test_a_terminating_worker_works_no_more() -> None:
    made = running(spec(workers=2), terminate_seconds=50.0)
    made.patch_workers("default", "a", 1)
    made.advance(11.0)
    assert done(made) == pytest.approx(10.0)


def test_the_first_start_costs_nothing_extra_and_a_resize_the_restart() -> None:
    made = running(spec(workers=2, work=110.0), restart_seconds=50.0)
    made.advance(12.0)
    assert done(made) == pytest.approx(20.0)
    made.patch_workers("default", "a", 1)
    made.advance(1000.0)
    assert ended(made) == pytest.approx(12.0 + 50.0 + 90.0)
    assert made.progress(job(made).uid).restarts == 1


def test_several_workers_that_join_after_one_resize_are_one_restart() -> None:
    made = running(spec(workers=1, work=10_000.0), restart_seconds=50.0)
    made.patch_workers("default", "a", 3)
    made.advance(2.0)
    made.bind("default", "a-worker-1", "n1")
    made.advance(10.0)
    made.bind("default", "a-worker-2", "n1")
    made.advance(20.0)
    assert made.progress(job(made).uid).restarts == 1


def test_work_is_kept_while_a_job_stands_still() -> None:
    made = running(spec(workers=1))
    made.advance(11.0)
    made.delete_pod("default", "a-ps-0")
    made.advance(100.0)
    assert done(made) == 10.0
    bind_all(made)
    made.advance(111.0)
    assert done(made) == 20.0
    assert made.progress(job(made).uid).restarts == 1


def test_a_job_that_ends_otherwise_stops_computing() -> None:
    made = running(spec(workers=1))
    made.advance(11.0)
    made.fail_job("default", "a")
    made.advance(5000.0)
    assert (done(made), job(made).phase) == (10.0, JobPhase.FAILED)


def test_a_member_that_is_replaced_just_before_the_end_ends_when_it_starts() -> None:
    made = running(spec(workers=2, work=100.0))
    made.advance(50.0)
    made.delete_pod("default", "a-worker-0")
    made.advance(200.0)
    assert slots(made)["worker-1"] == SUCCEEDED
    bind_all(made)
    made.advance(300.0)
    assert (job(made).phase, slots(made)) == (JobPhase.SUCCEEDED, {"worker-0": SUCCEEDED, "worker-1": SUCCEEDED})
