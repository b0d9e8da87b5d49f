"""The checker finds what a broken policy breaks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from policy.cluster.actions import Action, Admit, Decision, Migrate, Resize
from policy.cluster.snapshot import Snapshot
from policy.sim.fluid.check import Checker
from policy.sim.fluid.run import simulate
from policy.sim.fluid.settings import FluidSettings
from policy.sim.objects import JobSpec
from policy.sim.traces import Trace, node
from policy.systems.base import Policy
from tests.unit.sim.scripts import UID, Script, everywhere
from tests.unit.sim.worlds import spec

JOB = replace(spec(ps=1, workers=4, work=600.0), min_workers=2, max_workers=6)
WHOLE = everywhere(JOB, "n1")
SHORT = FluidSettings(quiet_seconds=30.0, horizon=900.0)


def found(policy: Policy, *jobs: JobSpec) -> str:
    checker = Checker()
    nodes = (node("n1", 6, 32), node("n2", 6, 32))
    simulate(Trace(nodes, jobs or (JOB,)), policy, SHORT, on_step=checker)
    return "\n".join(checker.broken)


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (Admit(UID, 1, dict(list(WHOLE.items())[:2])), "admitted with 1 workers, not 2..6"),
        (Admit(UID, 4, dict(list(WHOLE.items())[1:])), "admitted with a plan that lacks or adds ps-0"),
        (Resize(UID, 1), "resized to 1 workers, not 2..6"),
        (Resize(UID, 7), "resized to 7 workers, not 2..6"),
        (Migrate(UID, dict(list(WHOLE.items())[1:])), "migrated with a plan that lacks or adds ps-0"),
    ],
)
def test_an_action_beyond_the_bounds(action: Action, said: str) -> None:
    admit = () if isinstance(action, Admit) else ((0.0, Admit(UID, 4, WHOLE)),)
    assert said in found(Script((*admit, (10.0, action)), admits=False))


def test_a_node_that_holds_more_than_it_has() -> None:
    second = replace(JOB, name="b")
    crowd = Script(((0.0, Admit(UID, 4, WHOLE)), (5.0, Admit("job-000001", 4, WHOLE))), admits=False)
    assert "node n1 holds" in found(crowd, JOB, second)


def test_a_job_that_waits_unspoken_to() -> None:
    @dataclass(frozen=True)
    class Silent:
        name: str = "silent"

        def decide(self, snapshot: Snapshot, now: float) -> Decision:
            return Decision()

    assert "waits without a verdict" in found(Silent())


def test_a_sound_run_is_sound() -> None:
    assert found(Script(((0.0, Admit(UID, 4, WHOLE)), (50.0, Migrate(UID, everywhere(JOB, "n2")))), admits=False)) == ""
