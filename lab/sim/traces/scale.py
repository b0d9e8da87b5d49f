"""What the public traces' readers share: a sample of the rows, bounds from what was asked, arrivals to a mean load."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from lab.sim.objects import JobSpec
from lab.sim.speed import training_rate
from lab.sim.traces.base import Trace
from policy.cluster.model import WORKER

T = TypeVar("T")


def sampled(rows: Sequence[T], count: int | None, seed: int, name: str = "sample") -> list[T]:
    """So many of them in their order, each as likely; all without a count. Raises ValueError where there are fewer.

    name: of the parameter that the count was given by.
    """
    if count is None:
        return list(rows)
    if not 1 <= count <= len(rows):
        raise ValueError(f"{name}: {count} is not allowed; allowed: 1 to {len(rows)}, the rows that there are")
    chosen = sorted(random.Random(seed).sample(range(len(rows)), count))
    return [rows[index] for index in chosen]


def elastic(asked: int) -> tuple[int, int]:
    """Half to double the workers that were asked for (issue: Philly); at least one."""
    return max(1, asked // 2), 2 * asked


def work(seconds: float, workers: int, contention: float) -> float:
    """One worker's seconds in a job that took so long with so many on one node (lab/sim/speed.py)."""
    return seconds * training_rate(["here"] * workers, (), contention)


def offered(trace: Trace, resource: str) -> float:
    """Mean load: what the jobs hold of the resource at the workers they ask for, by what the nodes have meanwhile."""
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
    """The same jobs from time 0, in the same order, with gaps stretched to that mean load; None: as they came.

    Raises ValueError for a load that is none.
    """
    if load is not None and not load > 0:
        raise ValueError(f"load: {load} is not allowed; allowed: a number above 0")
    first, now = trace.jobs[0].arrival, offered(trace, resource)
    factor = now / load if load is not None and now else 1.0
    jobs = (replace(job, arrival=(job.arrival - first) * factor) for job in trace.jobs)
    return replace(trace, jobs=tuple(jobs))
