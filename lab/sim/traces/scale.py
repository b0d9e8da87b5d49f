"""What the readers of public traces share: sampling rows, bounds from the workers asked for, scaling the load."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from lab.sim.objects import JobSpec
from lab.sim.speed import training_rate
from lab.sim.traces.trace import Trace
from policy.cluster.job import WORKER

T = TypeVar("T")


def sampled(rows: Sequence[T], count: int | None, seed: int, name: str = "sample") -> list[T]:
    """Draw ``count`` of the rows with the seed, and return them in their order; return all rows if ``count`` is None.

    Every row is equally likely. Raises ValueError if there are fewer rows; ``name`` is the parameter that gave the
    count.
    """
    if count is None:
        return list(rows)
    if not 1 <= count <= len(rows):
        raise ValueError(f"{name}: {count} is not allowed; allowed: 1 to {len(rows)}, the number of rows")
    chosen = sorted(random.Random(seed).sample(range(len(rows)), count))
    return [rows[index] for index in chosen]


def elastic(asked: int) -> tuple[int, int]:
    """Return the bounds of a job that asks for ``asked`` workers: half as many (at least one) and twice as many."""
    return max(1, asked // 2), 2 * asked


def work(seconds: float, workers: int, contention: float) -> float:
    """Return a job's work in seconds of one worker, from the seconds that it took with ``workers`` workers on one node.

    The speed model is that of lab/sim/speed.py.
    """
    return seconds * training_rate(["here"] * workers, (), contention)


def offered(trace: Trace, resource: str) -> float:
    """Return the mean load of the resource: what the jobs would use with the workers they ask for, divided by the
    capacity.
    """
    capacity = sum(node.allocatable[resource] for node in trace.nodes)
    span = trace.jobs[-1].arrival - trace.jobs[0].arrival
    asked = sum(_held(job, resource) for job in trace.jobs)
    return asked / (capacity * span) if capacity and span else 0.0


def _held(job: JobSpec, resource: str) -> float:
    amount = sum(role.requests[resource] * role.replicas for role in job.roles)
    worker = job.role(WORKER)
    rate = training_rate(["here"] * (worker.replicas if worker else 1), (), job.contention)
    return amount * job.work_seconds / rate


def to_load(trace: Trace, load: float | None, resource: str) -> Trace:
    """Return the jobs, the first at time 0, with the gaps between arrivals scaled so that the mean load is ``load``.

    None keeps the gaps. Raises ValueError for a load that is not above 0.
    """
    if load is not None and not load > 0:
        raise ValueError(f"load: {load} is not allowed; allowed: a number above 0")
    first, now = trace.jobs[0].arrival, offered(trace, resource)
    factor = now / load if load is not None and now else 1.0
    jobs = (replace(job, arrival=(job.arrival - first) * factor) for job in trace.jobs)
    return replace(trace, jobs=tuple(jobs))
