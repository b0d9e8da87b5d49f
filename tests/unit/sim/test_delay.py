"""A delay is counted as the paper does: the slot of the completion less that of the arrival, by the clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.sim.engine import START
from lab.sim.fluid.fluidrun import simulate
from lab.sim.fluid.fluidsettings import FluidSettings
from lab.sim.objects import JobObject, JobSpec, job_fact
from lab.sim.report import JobOutcome
from lab.sim.traces import Trace, node, pod_requests
from lab.sim.utilityslots import delay
from policy.cluster.job import WORKER, Role
from policy.cluster.training import SLOT_SECONDS, Training, Utility
from policy.systems.base import Policy
from policy.systems.baselines import Fifo
from policy.systems.oasis import Oasis
from policy.systems.oasis.workload import work_of
from policy.systems.rebalanced import Rebalanced
from policy.systems.specon import SpeCon

CURVE = Utility(value=80.0, steepness=1.0, target=2.0)


def outcome(
    arrival: float, seconds: float, policy: Policy | None = None, told: float | None = None, own: float | None = None
) -> JobOutcome:
    roles = (Role(WORKER, 1, pod_requests(1, 1)),)
    job = JobSpec("a", roles, 1, 1, seconds, arrival=arrival, training=Training(utility=CURVE, seconds=seconds))
    settings = FluidSettings(start_seconds=0.0, slot_seconds=told)
    return simulate(Trace((node("n", 4, 8),), (job,), own), policy or Fifo(), settings).jobs[0]


@pytest.mark.parametrize(
    ("arrival", "seconds", "slots"),
    [(0.0, 5.0, 0), (0.0, 10.0, 0), (0.0, 10.5, 1), (9.0, 2.0, 1), (9.0, 11.0, 1), (5.0, 20.0, 2), (10.0, 30.0, 2)],
)
def test_the_slot_of_the_completion_less_that_of_the_arrival(arrival: float, seconds: float, slots: int) -> None:
    done = outcome(arrival, seconds, told=10.0)
    assert done.lateness == slots - CURVE.target
    job = JobSpec("a", (), 1, 1, seconds, training=Training(utility=CURVE))
    work = work_of(job_fact(JobObject("a", job, created=START + arrival)), 10.0)
    last = (START + arrival + seconds) / 10.0
    assert done.utility == work.worth(int(last) - (last == int(last))) == CURVE.at(slots)


def test_slots_are_those_of_the_clock_in_which_policies_plan() -> None:
    """Slots of 600 s follow the clock, so the first slot of a run is shorter."""
    first = SLOT_SECONDS - START % SLOT_SECONDS
    assert 0 < first < SLOT_SECONDS
    assert outcome(0.0, first, told=SLOT_SECONDS).lateness == -CURVE.target
    assert outcome(0.0, first + 1, told=SLOT_SECONDS).lateness == 1 - CURVE.target


def test_a_rounding_belongs_to_the_slot_that_it_is_next_to() -> None:
    assert delay(1000.0 - 1e-9, 1010.0 + 1e-9, 10.0) == 0
    assert delay(1000.0, 1000.0, 10.0) == 0


def test_the_settings_win_over_the_trace_and_the_trace_over_the_policy() -> None:
    """The job takes 500 s and so ends 4 slots of 100 s after its first slot."""

    def late(policy: Policy, **more: float) -> float:
        return (outcome(0.0, 500.0, policy, **more).lateness or 0.0) + CURVE.target

    assert late(Fifo(), told=100.0, own=10.0) == 4
    assert late(Oasis(slot_seconds=100.0), own=100.0) == late(Oasis(slot_seconds=100.0)) == 4
    assert late(Rebalanced(Oasis(slot_seconds=100.0), SpeCon())) == 4
    assert late(Fifo()) == delay(START, START + 500.0, SLOT_SECONDS) == 1
    assert replace(FluidSettings(), slot_seconds=None).slot_seconds is None
