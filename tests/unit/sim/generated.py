"""Small mixed traces by seed: jobs of every shape, uneven nodes, faults."""

from __future__ import annotations

import random
from dataclasses import dataclass

from lab.sim.fluid import faults
from lab.sim.fluid.fluidsettings import FluidSettings
from lab.sim.fluid.link import DRAGON, SharedLinks
from lab.sim.fluid.speedmodels import Linear, Saturating, SharedCpu
from lab.sim.objects import JobSpec
from lab.sim.traces import Trace, node, pod_requests
from policy.cluster.job import PS, WORKER, Role
from policy.cluster.training import Training, Utility

SPEEDS = (Saturating(), SharedCpu(0.1), SharedLinks(), Linear())


@dataclass(frozen=True)
class Made:
    """A generated trace with its faults, the settings of the simulator, and how to run it."""

    trace: Trace
    faults: tuple[tuple[float, faults.Fault], ...]
    settings: FluidSettings


def made(seed: int, *, disturbed: bool = True) -> Made:
    """Make the trace of this seed; ``disturbed`` adds faults, without which each job fits at its minimum on the empty
    cluster.
    """
    draw = random.Random(seed)
    nodes = tuple(node(f"n{i}", draw.choice((6, 8, 12)), draw.choice((24, 32)), 4) for i in range(draw.randint(2, 4)))
    jobs = tuple(_job(draw, index, SPEEDS[seed % len(SPEEDS)].coupled) for index in range(draw.randint(3, 8)))
    start, grow, shrink = (draw.choice((0.0, 1.0, 20.0)) for _ in range(3))
    settings = FluidSettings(
        speeds=SPEEDS[seed % len(SPEEDS)],
        start_seconds=start,
        grow_seconds=grow,
        shrink_seconds=shrink,
        migrate_seconds=draw.choice((0.0, 5.0)),
        tick_seconds=draw.choice((15.0, 30.0)),
        report_seconds=30.0,
        horizon=20_000.0,
        quiet_seconds=2000.0,
        slot_seconds=60.0,
    )
    trace = Trace(nodes, jobs)
    return Made(trace, _faults(draw, trace) if disturbed else (), settings)


def _job(draw: random.Random, index: int, modelled: bool) -> JobSpec:
    worker = pod_requests(draw.choice((0.5, 1, 2)), draw.choice((1, 2, 4)), draw.choice((0, 0, 1)))
    least = draw.randint(1, 3)
    asked = least + draw.randint(0, 2)
    roles = [Role(WORKER, asked, worker)]
    if servers := draw.choice((0, 1, 1, 2)):
        roles.insert(0, Role(PS, servers, pod_requests(draw.choice((0.5, 1)), 1)))
    if draw.random() < 0.15:
        roles.append(Role("chief", 1, pod_requests(1, 1)))
    curve = Utility(draw.uniform(1, 100), draw.uniform(0.0, 1.0), draw.uniform(1, 20))
    return JobSpec(
        name=f"j{index}",
        roles=tuple(roles),
        min_workers=least,
        max_workers=asked + draw.randint(0, 2) if draw.random() < 0.8 else asked,
        work_seconds=draw.uniform(20.0, 800.0),
        arrival=draw.choice((0.0, round(draw.uniform(0.0, 600.0), 1))),
        contention=draw.choice((0.0, 0.1, 0.2)),
        utility=draw.choice((0.5, 1.0, 1.0, 3.0)),
        model=draw.choice(sorted(DRAGON)) if modelled else "",
        decay=draw.choice((5.2, 11.5, 19.6)),
        training=Training(chunks=4, batches=10, seconds=2.0, utility=curve) if draw.random() < 0.7 else None,
        migratable=draw.random() < 0.5,
        ps_elastic=draw.random() < 0.3 and servers > 0,
    )


def _faults(draw: random.Random, trace: Trace) -> tuple[tuple[float, faults.Fault], ...]:
    found: list[tuple[float, faults.Fault]] = []
    for _ in range(draw.randint(1, 4)):
        at, where = round(draw.uniform(1.0, 900.0), 1), draw.choice(trace.nodes).name
        job = draw.choice(trace.jobs)
        what = draw.randrange(4)
        if what == 0:
            found += [(at, faults.NodeLost(where)), (at + draw.choice((5.0, 100.0, 400.0)), faults.NodeBack(where))]
        elif what == 1:
            found += [(at, faults.NodeCordoned(where)), (at + 200.0, faults.NodeBack(where))]
        elif what == 2:
            found.append((at, faults.PodEvicted(job.name, draw.choice(job.slots))))
        else:
            found.append((at, faults.JobDeleted(job.name)))
    return tuple(found)
