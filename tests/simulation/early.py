"""Run seeds with the setting ``barrier.commit: first``, and define seeded defects (faults put into the code on purpose)
of that setting.

Seed N here is the scenario of the usual seed N with other settings, so that the usual seeds and their digests stay as
they are. Most jobs name no volume, because a gang with volumes is not bound at its first bind call.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

from extender import barrier
from extender.config.settings import Settings
from lab.sim.objects import JobSpec, WorkloadKind
from lab.sim.pods.world import SimulatedWorld
from lab.sim.traces import Trace, node, pod_requests
from lab.virtual.clocks import loop_time
from policy import desired
from policy.cluster.job import WORKER, Role
from policy.placement import eligible
from tests.simulation.mutants import put
from tests.simulation.policymutants import Patch
from tests.simulation.run import SeedReport, Simulation, play
from tests.simulation.scenario import Scenario, drawn, scheduler_of, settings_of

SHARE_PLAIN: Final = 0.75  # This share of the jobs names no volume.


def early(seed: int) -> Scenario:
    """Return the scenario of that seed with early bindings; a kube-scheduler of its own is beside each extender."""
    made, chance = drawn(seed), random.Random(f"early {seed}")
    told = made.settings.model_dump()
    changes = {"answer": "one-node", "barrier": told["barrier"] | {"commit": "first"}}
    lease = told["lease"] | ({"elect": False, "name": "kohort-scheduler"} if told["lease"]["elect"] else {})
    settings = Settings.model_validate(told | changes | {"lease": lease})
    jobs = tuple(replace(job, volumes=()) if chance.random() < SHARE_PLAIN else job for job in made.trace.jobs)
    scheduler = replace(scheduler_of(settings), lag=made.scheduler.lag)
    return replace(made, trace=replace(made.trace, jobs=jobs), settings=settings, scheduler=scheduler)


def run_early(seed: int, defect: str = "") -> tuple[SeedReport, int]:
    """Run the seed; with a seeded defect, stop at the first violation.

    Return the report, and the number of bindings that were sent for members without a bind call of their own.
    """
    made = list[Simulation]()

    def make() -> Simulation:
        made.append(Simulation(early(seed), impatient=bool(defect)))
        return made[0]

    with ExitStack() as stack:
        for owner, name, value in DEFECTS[defect]() if defect else ():
            stack.enter_context(put(owner, name, value))
        return play(make), made[0].witness.unasked


def binds_an_ineligible_gang() -> list[Patch]:
    """Seeded defect: a gang with volumes is bound at its first bind call, so kube-scheduler does not check the
    volumes.
    """

    def lasting(snapshot: Any, job_uid: str) -> Iterator[str]:
        return iter(())

    return [(eligible, "_lasting", lasting)]


def binds_what_is_there() -> list[Patch]:
    """Seeded defect: a gang is bound at its first bind call although members have no pod, a gated pod or no room."""

    def passing(snapshot: Any, gang: Any) -> Iterator[str]:
        return iter(())

    return [(eligible, "_passing", passing)]


def success_before_the_binding_is_made() -> list[Patch]:
    """Seeded defect: a bind call is answered with success while the member's binding is still in flight."""

    def announce(self: barrier.Barrier, uid: str, node: str) -> None:
        _ANNOUNCE(self, uid, node)
        if uid in self._in_flight.values():
            self._answer(uid, barrier.BOUND)

    return [(barrier.Barrier, "_announce", announce)]


_ANNOUNCE = barrier.Barrier._announce


def condition_left_false() -> list[Patch]:
    """The condition PodScheduled=False of a bound pod is not set to True.

    The 24 drawn seeds of the gate do not catch it, because their jobs end before rule L11 counts: see `misreported`.
    """
    return [(desired, "_misreported", lambda snapshot, job: iter(()))]


DEFECTS: Final[dict[str, Callable[[], list[Patch]]]] = {
    made.__name__.replace("_", "-"): made
    for made in (
        binds_an_ineligible_gang,
        binds_what_is_there,
        success_before_the_binding_is_made,
    )
}


def misreported(longest: int = 120) -> SeedReport:
    """Run a gang with early bindings; at 30 s kube-scheduler writes PodScheduled=False on one of its bound pods.

    No faults are drawn. The witness is told at 40 s that the calm has begun, so rule L11 allows that condition until
    85 s.
    """
    settings = settings_of(barrier={"commit": "first"}, answer="one-node")
    roles = (Role(WORKER, 3, pod_requests(1, 1)),)
    jobs = (JobSpec("gang", roles, 3, 3, 1e5, 0.0, kind=WorkloadKind.TFJOB),)
    scenario = Scenario(0, Trace((node("node-0", 10, 32),), jobs), settings, scheduler_of(settings), 40.0, 2.0)

    def write(world: SimulatedWorld) -> None:
        pod = min((one for one in world.store.pods.values() if one.node), key=lambda one: one.name)
        world.patch_scheduled_condition(pod.namespace, pod.name, False, "SchedulerError", "already bound")

    def make() -> Simulation:
        made = Simulation(scenario, kinds=(), longest=longest)
        made.acts = ((30.0, write), (40.0, lambda _: setattr(made.witness, "calm_since", loop_time())))
        return made

    return play(make)
