"""The pod-level and the job-level simulator agree where starting and ending pods takes next to no time."""

from __future__ import annotations

import pytest

from lab.sim.fluid import fluidrun as job_level
from lab.sim.fluid.fluidsettings import FluidSettings
from lab.sim.pods.worldcore import WorldSettings
from lab.sim.report import RunResult
from lab.sim.traces import kod2
from lab.virtual import podrun as pod_level
from policy.systems.kod2 import Kod2

INSTANT = 1e-4
# A batch of facts lasts longer than all that pods do one by one, so each decision sees whole gangs. With
# barrier.commit: first a bind call ends the batch early.
BATCH = 0.05
APART = 0.6  # seconds between events: a dozen batches
TICK = 5.0


def both(seed: int) -> tuple[RunResult, RunResult]:
    slow = pod_level.simulate(
        kod2(seed),
        Kod2(),
        pod_level.settings_for(coalesce_seconds=BATCH, tick_seconds=TICK, barrier={"commit": "all"}),
        world=WorldSettings(0.0, 0.0, INSTANT, start_seconds=INSTANT, terminate_seconds=INSTANT),
    )
    fast = job_level.simulate(kod2(seed), Kod2(), FluidSettings(start_seconds=0.0, tick_seconds=TICK))
    return slow, fast


@pytest.mark.parametrize("seed", range(6))
def test_same_admissions_same_order_same_times(seed: int) -> None:
    slow, fast = both(seed)
    for order in ("started", "ended"):
        names = [[job.name for job in sorted(result.jobs, key=lambda j: getattr(j, order))] for result in (slow, fast)]
        assert names[0] == names[1]
    before = {job.name: job for job in slow.jobs}
    for job in fast.jobs:
        twin = before[job.name]
        assert (job.finished, job.resizes > 0) == (twin.finished, twin.resizes > 0)
        assert job.started == pytest.approx(twin.started, abs=APART)
        assert job.jct_seconds == pytest.approx(twin.jct_seconds, abs=APART)
    assert fast.utilisation == pytest.approx(slow.utilisation, abs=0.01)
