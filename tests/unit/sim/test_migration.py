"""A migration through every part: ledger, controller, operator, kube-scheduler, kubelet, in virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from lab.sim.engine import START
from lab.sim.invariants import violations
from lab.sim.pods.world import SimulatedWorld
from lab.sim.report import RunResult
from lab.sim.simulatedstep import SimulatedStep
from lab.sim.traces import Trace, node
from lab.virtual.podrun import simulate
from policy.cluster.actions import Decision, Migrate, Remember
from policy.cluster.gang import State
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy
from policy.systems.kod2 import Kod2
from tests.unit.sim.worlds import spec

MOVED = "moved"


@dataclass(frozen=True, slots=True)
class MoveOnce(Policy):
    """KOD2, and 100 s after the start every running job is moved to n2."""

    base: Kod2 = field()

    @property
    def name(self) -> str:
        return "move-once"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        decided = self.base.decide(snapshot, now)
        if now < START + 100.0 or MOVED in snapshot.memory:
            return decided
        running = [snapshot.gang(job.uid) for job in snapshot.running()]
        gangs = [gang for gang in running if gang.state is State.RUNNING]
        moves = [
            Migrate(gang.job_uid, dict.fromkeys(gang.nodes, "n2")) for gang in gangs if gang.state is State.RUNNING
        ]
        return replace(decided, actions=(*decided.actions, *moves, Remember(MOVED, True)))


def run(policy: object, seen: list[SimulatedStep]) -> RunResult:
    trace = Trace((node("n1", 10, 32), node("n2", 10, 32)), (spec(workers=4, least=4, work=600.0, migratable=True),))

    def look(step: SimulatedStep, world: SimulatedWorld) -> None:
        seen.append(step)
        assert (violations(step.snapshot), list(world.overcommitted())) == ([], [])

    return simulate(trace, policy, on_step=look)  # type: ignore[arg-type]


def test_a_job_moves_whole_and_goes_on_where_it_was() -> None:
    steps: list[SimulatedStep] = []
    moved, undisturbed = run(MoveOnce(Kod2()), steps), run(Kod2(), [])
    hosts = [{pod.node for pod in step.snapshot.pods.values() if pod.holds_room} for step in steps]
    assert next(host for host in hosts if len(host) == 1) == {"n1"}
    assert [host for host in hosts if host][-1] == {"n2"}
    states = list(dict.fromkeys(gang.state for step in steps for gang in step.snapshot.gangs.values()))
    assert State.MIGRATING in states
    assert not {State.REPAIRING, State.RELEASING} & set(states)
    assert moved.finished == 1
    assert moved.jobs[0].jct_seconds == pytest.approx(undisturbed.jobs[0].jct_seconds, abs=15.0)
    assert moved.jobs[0].jct_seconds > undisturbed.jobs[0].jct_seconds
