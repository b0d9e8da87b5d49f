"""A step's work depends on what has changed, not on the cluster's size; calls are counted because times vary."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import FrameType

import pytest

from benchmarks.simulator import TICKS, generated
from lab.sim.fluid.fluidrun import simulate
from lab.sim.fluid.fluidsettings import FluidSettings
from lab.sim.simulatedstep import SimulatedStep
from lab.sim.traces import Trace
from policy.cluster.events import Event, JobSeen, PodGone
from policy.cluster.gang import State
from policy.cluster.snapshot import Snapshot
from policy.step import step
from policy.systems import make_policy

FEW, MANY, PER_NODE = 20, 80, 12


@pytest.mark.parametrize("name", sorted(TICKS))
def test_the_end_of_a_job_costs_less_than_twice_as_much_where_four_times_as_many_run_and_wait(name: str) -> None:
    few, many = crowded(name, FEW), crowded(name, MANY)
    assert len(many.snapshot.index.waiting) > 3 * len(few.snapshot.index.waiting) > 100
    assert calls_when_a_job_ends(name, many) < 2 * calls_when_a_job_ends(name, few)


def crowded(name: str, nodes: int) -> SimulatedStep:
    """Return the last step of a run in which all jobs have come and none has ended."""
    trace = generated(nodes, PER_NODE * nodes)
    jobs = tuple(replace(job, arrival=0.0, work_seconds=1e6) for job in trace.jobs)
    steps: list[SimulatedStep] = []
    simulate(Trace(trace.nodes, jobs), make_policy(name), FluidSettings(horizon=30.0), on_step=steps.append)
    return steps[-1]


def calls_when_a_job_ends(name: str, last: SimulatedStep) -> int:
    calls, policy, snapshot = 0, make_policy(name), last.snapshot
    events = end_of_one(snapshot)

    def count(frame: FrameType, event: str, what: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        step(snapshot, events, policy, last.at + 1.0)
    finally:
        sys.setprofile(None)
    return calls


def end_of_one(snapshot: Snapshot) -> list[Event]:
    """Return the events with which the first running job of one worker ends."""
    running = (job for job in snapshot.running() if snapshot.gang(job.uid).state is State.RUNNING)
    job = next(job for job in running if snapshot.gang(job.uid).workers == 1)
    ended = replace(job, finished=True, version=job.version + 1)
    return [JobSeen(ended), *(PodGone(pod.uid) for pod in snapshot.pods_of(job.uid))]
