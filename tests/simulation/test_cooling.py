"""Test which growths the check of the cool-down (S3) examines; it leaves out those that a user or another process
caused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from lab.sim.objects import JobObject, JobSpec
from lab.sim.traces import pod_requests
from policy.cluster.actions import Resize, ShrinkStalled
from policy.cluster.gang import Gang, State
from policy.cluster.job import WORKER, Role
from policy.cluster.snapshot import Snapshot
from tests.simulation.cooling import CoolDown

UID = "default/a"
FIRST = ("replica-a", 1)


class ShrunkJob:
    """A job of four workers that a process shrinks to two at 100 s; the API server accepts the write a second later."""

    def __init__(self, seconds: float = 30.0) -> None:
        self.found: list[str] = []
        self.cooling = CoolDown(self.found.append)
        self.cooling.seconds = seconds
        self.spec = JobSpec("a", (Role(WORKER, 4, pod_requests(1, 1)),), 1, 4, 60.0)
        self.decide(50.0, 4)
        self.decide(100.0, 2)
        self.write(101.0, 4, 2)

    def decide(
        self, now: float, workers: int, leading: bool = True, process: tuple[str, int] = FIRST, stalled: bool = False
    ) -> None:
        gang = Gang(UID, state=State.RUNNING, workers=workers)
        snapshot = Snapshot(leading=leading, gangs={UID: gang})
        stalled_effects = [ShrinkStalled(UID, 2, 2, on_behalf_of="default/b")] if stalled else []
        self.cooling.stepped(process, snapshot, [*stalled_effects, Resize(UID, workers)], now)

    def write(
        self, now: float, before: int, workers: int, whole: float | None = 10.0, process: tuple[str, int] = FIRST
    ) -> None:
        roles = (Role(WORKER, workers, pod_requests(1, 1)),)
        job = cast(JobObject, _Job(replace(self.spec, roles=roles)))
        self.cooling.written(process, UID, job, before, whole, now)


class _Job:
    key = "default/a"

    def __init__(self, spec: JobSpec) -> None:
        self.spec: Any = spec


def test_workers_that_did_not_go_are_given_back_at_any_time() -> None:
    job = ShrunkJob()
    job.decide(110.0, 4, stalled=True)
    job.write(111.0, 2, 4)
    assert (job.found, job.cooling.compared) == ([], 0)


@pytest.mark.parametrize(("at", "wrong"), [(129.9, True), (130.0, False)])
def test_a_growth_is_judged_from_the_decision_to_shrink(at: float, wrong: bool) -> None:
    job = ShrunkJob()
    job.write(at, 2, 3)
    assert bool(job.found) is wrong
    assert job.cooling.compared == 1


def test_a_policy_without_a_cool_down_is_not_judged() -> None:
    job = ShrunkJob(seconds=0.0)
    job.write(102.0, 2, 3)
    assert job.found == []


def test_what_a_user_has_changed_since_is_not_ours() -> None:
    job = ShrunkJob()
    job.write(102.0, 1, 2)
    job.write(103.0, 4, 2)
    job.spec = replace(job.spec, max_workers=5)
    job.write(104.0, 2, 5)
    assert (job.found, job.cooling.compared) == ([], 0)


@pytest.mark.parametrize("whole", [None, 101.5])
def test_a_gang_that_was_not_whole_all_the_time_may_have_been_admitted_anew(whole: float | None) -> None:
    job = ShrunkJob()
    job.write(102.0, 2, 3, whole)
    assert job.found == []


def test_another_process_or_term_knows_of_no_cool_down() -> None:
    job = ShrunkJob()
    job.write(102.0, 2, 3, process=("replica-a", 2))
    again = ShrunkJob()
    again.decide(101.5, 2, leading=False)
    again.write(102.0, 2, 3)
    assert (job.found, again.found) == ([], [])
