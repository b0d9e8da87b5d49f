"""A job in OASiS's units: its work in worker-slots, the requests of one worker and one ps, and its utility by delay.

Letters and equation numbers in brackets are those of OASiS's paper (section III; its Table I lists the letters).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from policy.cluster.constraints import ANYWHERE, Constraints
from policy.cluster.frozen import replace
from policy.cluster.job import PS, WORKER, Job
from policy.cluster.resources import BANDWIDTH, Resources, total
from policy.cluster.training import DUST, Training, Utility, timed

POOL = "kohort.dev/pool"  # With this label a node takes only workers, or only ps; a node without it takes both.


@dataclass(frozen=True, slots=True)
class Part:
    """A role of a job other than the workers, with the requests of one member and the nodes that the role may use.

    fixed: how many members run whenever the job runs. None: the role is ps, and its number follows from the workers'
    bandwidth.
    """

    role: str
    requests: Resources
    constraints: Constraints
    fixed: int | None


@dataclass(frozen=True, slots=True)
class Work:
    """A job as the planner sees it. Time slots are counted from the epoch.

    least, most: the fewest and the most workers in a time slot in which the job runs: its minimum, and its maximum but
    no more than its chunks of data (N), because one worker trains a chunk. work: the work in worker-slots, the time
    slots that one worker alone would need. per_ps: how many workers one ps serves, its bandwidth divided by a worker's
    (B / b). arrival: the time slot of its submission. holds: its kind cannot be suspended, so it has workers in every
    time slot between its first and its last. single: it has no workers: its other roles do one unit of work in a time
    slot; ``requests`` is what they ask for.
    """

    uid: str
    arrival: int
    least: int
    most: int
    work: int
    requests: Resources
    constraints: Constraints
    parts: tuple[Part, ...]
    per_ps: float
    utility: Utility
    holds: bool = False
    single: bool = False

    def in_other_slots(self, factor: float) -> Work:
        """Return the job's work converted to time slots of another length: ``factor`` new ones for each old one.

        The utility curve stays the same, because it counts the delay in time slots of any length.
        """
        work = max(1, math.ceil(self.work * factor - DUST))
        return replace(self, arrival=math.floor(self.arrival * factor), work=work)

    def worth(self, slot: int) -> float:
        """Return the job's utility if it completes in that time slot.

        The delay is the number of time slots since the time slot of its arrival.
        """
        return self.utility.at(slot - self.arrival)

    @property
    def shortest(self) -> int:
        """The least possible delay in time slots: the job has all its workers in every time slot from its arrival."""
        return -(-self.work // self.most) - 1

    def counts(self, part: Part, workers: int) -> int | None:
        """Return how many members the role ``part`` has when the job has so many workers; None if no number is allowed.

        OASiS's constraints (6) and (7) demand enough ps for the workers' bandwidth, and no more ps than workers.
        """
        if workers == 0:
            return 0
        if part.role != PS or self.single:
            return part.fixed
        if part.fixed is not None:
            return part.fixed if workers <= part.fixed * self.per_ps + DUST else None
        servers = max(1, math.ceil(workers / self.per_ps - DUST))
        return servers if servers <= workers else None


def work_of(job: Job, slot_seconds: float, done: float = 0.0) -> Work:
    """Return the job in OASiS's units. ``done``: the share of its training that is done, from 0 to 1.

    A job that does not state how long it trains has one worker-slot of work for each worker of its maximum.
    """
    training = timed(job.training, max(1, job.max_workers), slot_seconds)
    most = max(1, min(job.max_workers, training.chunks), job.min_workers)
    work = math.ceil(training.worker_slots(slot_seconds) * (1.0 - done) - DUST)
    worker, parts = job.worker, tuple(_parts(job, training))
    requests = worker.requests if worker else _unit(parts)
    return Work(
        uid=job.uid,
        arrival=math.floor(job.arrival / slot_seconds),
        least=max(1, job.min_workers),
        most=most,
        work=max(1, work),
        requests=_with_bandwidth(requests, training.worker_bandwidth if worker else 0.0),
        constraints=worker.constraints if worker else ANYWHERE,
        parts=parts,
        per_ps=training.workers_per_ps,
        utility=training.utility or Utility(job.utility, 0.0, 0.0),
        holds=not job.suspends,
        single=worker is None,
    )


def _unit(parts: tuple[Part, ...]) -> Resources:
    return total(part.requests.times(part.fixed or 0) for part in parts if part.role != PS)


def _parts(job: Job, training: Training) -> list[Part]:
    """Return the job's roles other than the workers.

    In a job without workers the number of ps is fixed, because it cannot follow the number of workers.
    """
    parts, follows = [], job.worker is not None
    for role in job.roles:
        if role.name == WORKER or (role.name == PS and training.all_reduce and job.ps_elastic and follows):
            continue
        bandwidth = training.ps_bandwidth if role.name == PS else 0.0
        varies = role.name == PS and job.ps_varies and not training.all_reduce and follows
        fixed = None if varies else role.replicas
        parts.append(Part(role.name, _with_bandwidth(role.requests, bandwidth), role.constraints, fixed))
    return parts


def _with_bandwidth(requests: Resources, gigabits: float) -> Resources:
    """Return the requests with a bandwidth of ``gigabits`` Gbit/s added, unless they have a bandwidth already."""
    if requests[BANDWIDTH] or gigabits <= 0:
        return requests
    return requests + Resources({BANDWIDTH: round(gigabits * 1000)})
