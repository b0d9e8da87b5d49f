"""OASiS in both simulators with ticks longer than its slots: at each slot's beginning the workers follow the plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.sim.engine import START
from lab.sim.fluid import fluidrun as fluid
from lab.sim.fluid.fluidsettings import FluidSettings
from lab.sim.fluid.speedmodels import Linear
from lab.sim.objects import JobSpec
from lab.sim.simulatedstep import SimulatedStep
from lab.sim.traces import Trace, node, pod_requests
from lab.virtual import podrun
from policy.cluster.job import PS, WORKER, Role
from policy.cluster.training import Training, Utility
from policy.systems.base import Policy
from policy.systems.kod2 import Kod2
from policy.systems.oasis import Oasis
from policy.systems.oasis.schedule import MEMORY, Book
from policy.systems.rebalanced import Rebalanced
from policy.systems.specon import SpeCon

SLOT, LONG = 500.0, 3600.0
SOON = 5.0  # seconds after a slot's beginning in which the operator and the bindings have done their part


def trains(name: str, slots: int, most: int, priority: float, arrival: float = 0.0) -> JobSpec:
    """Return a job of ``slots`` worker-slots of work, in chunks that take one slot."""
    training = Training(epochs=-(-slots // most), chunks=most, seconds=SLOT, utility=Utility(priority, 0.2, 8.0))
    roles = (Role(PS, 1, pod_requests(1, 1)), Role(WORKER, 1, pod_requests(2, 1)))
    return JobSpec(name, roles, 1, most, slots * SLOT, arrival=arrival, training=training, contention=0.0)


def crowded() -> Trace:
    """Return a trace of two jobs; four workers fit on the node, so the ten worker-slots of the first are spread
    unevenly.
    """
    return Trace((node("n1", 10, 32),), (trains("a", 10, 5, 50.0), trains("b", 6, 3, 50.0, arrival=SLOT)))


class Watch:
    """Compares the planned with the real number of workers of each job, ``SOON`` seconds after each slot begins."""

    def __init__(self) -> None:
        self.steps: list[SimulatedStep] = []

    def __call__(self, step: SimulatedStep, *_: object) -> None:
        self.steps.append(step)

    def beside_plan(self) -> list[str]:
        found, looked = [], 0
        last = int(self.steps[-1].at // SLOT)
        for slot in range(int(START // SLOT), last):
            due = [step for step in self.steps if slot * SLOT <= step.at <= slot * SLOT + SOON]
            if not due:
                found.append(f"slot {slot}: no step")
                continue
            snapshot = due[-1].snapshot
            book = snapshot.memory[MEMORY]
            assert isinstance(book, Book)
            for uid, plan in book.plans.items():
                shift, gang = plan.at(slot), snapshot.gang(uid)
                wanted, has = (shift.workers if shift else 0), (gang.workers if gang.admitted else 0)
                looked += 1
                if wanted != has and plan.left(slot):
                    found.append(f"slot {slot}: {uid} has {has}, not {wanted}")
        assert looked > 5
        return found


def changes(watch: Watch) -> int:
    """Return how often the planned number of workers of a job changed from one slot to the next."""
    counts: dict[str, list[int]] = {}
    for step in watch.steps:
        book = step.snapshot.memory.get(MEMORY)
        for uid, plan in book.plans.items() if isinstance(book, Book) else ():
            counts[uid] = [shift.workers for shift in plan.shifts] if uid not in counts else counts[uid]
    return sum(len(set(workers)) - 1 for workers in counts.values())


def test_the_job_level_simulator_steps_at_the_beginning_of_each_slot() -> None:
    watch = Watch()
    settings = FluidSettings(speeds=Linear(), start_seconds=0.0, tick_seconds=LONG)
    result = fluid.simulate(crowded(), Oasis(slot_seconds=SLOT), settings, on_step=watch)
    assert result.finished == 2
    assert changes(watch) > 0
    assert watch.beside_plan() == []


def test_the_pod_level_simulator_steps_at_the_beginning_of_each_slot() -> None:
    watch = Watch()
    settings = podrun.settings_for(tick_seconds=LONG)
    podrun.simulate(crowded(), Oasis(slot_seconds=SLOT), settings, horizon=8 * SLOT, on_step=watch)
    assert watch.beside_plan() == []


@pytest.mark.parametrize("policy", [Oasis(slot_seconds=SLOT), Rebalanced(Oasis(slot_seconds=SLOT), SpeCon())])
def test_a_run_does_not_end_before_the_slots_that_are_planned(policy: Policy) -> None:
    """The first job is planned for twenty slots but ends in a fifth of one; no event occurs until these
    slots are over.
    """
    first = replace(trains("a", 20, 1, 50.0), work_seconds=100.0)
    trace = Trace((node("n1", 3, 32),), (first, trains("b", 2, 1, 50.0, arrival=1.0)))
    result = fluid.simulate(trace, policy, FluidSettings(speeds=Linear(), start_seconds=0.0, quiet_seconds=SLOT))
    assert result.finished == 2
    assert result.jobs[1].started is not None
    assert result.jobs[1].started > 10 * SLOT


@pytest.mark.parametrize("slot_seconds", [600.0, 0.7, 1 / 3, 4000.1])
def test_the_next_moment_is_the_first_of_the_next_slot(slot_seconds: float) -> None:
    policy, now = Oasis(slot_seconds=slot_seconds), 1_763_000_000.123
    for _ in range(1000):
        at = policy.next_moment(now)
        assert at > now
        assert at // slot_seconds == now // slot_seconds + 1 or int(at / slot_seconds) == int(now / slot_seconds) + 1
        now = at


def test_who_keeps_time_beneath_another_system_still_does() -> None:
    assert Rebalanced(Oasis(slot_seconds=SLOT), SpeCon()).next_moment(700.0) == 2 * SLOT
    assert Kod2().next_moment(700.0) == float("inf")
