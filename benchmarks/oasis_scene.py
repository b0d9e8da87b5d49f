"""Measure what OASiS's decision about one job costs over a whole simulated run; part of ``benchmarks.decisions``."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from lab.papers.oasis_jobs import Draw, trace
from lab.papers.oasis_world import oasis, run
from policy.cluster.actions import Decision, Remember
from policy.cluster.snapshot import Snapshot
from policy.systems.oasis import Oasis
from policy.systems.oasis.schedule import MEMORY, Book

SLOTS, JOBS = 100, 150


@dataclass(frozen=True)
class Timed(Oasis):
    """OASiS with a stopwatch: ``cpu`` and ``wall`` have the seconds for each job that it has decided about.

    The seconds of one call of ``decide`` include repairs and the orders for the time slot, and are divided equally
    among the jobs that the call decides about.
    """

    cpu: list[float] = field(default_factory=list, compare=False)
    wall: list[float] = field(default_factory=list, compare=False)

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Return the unchanged decision, and record its duration."""
        cpu, wall = time.process_time(), time.perf_counter()
        decision = Oasis.decide(self, snapshot, now)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        books = [action.value for action in decision.actions if isinstance(action, Remember) and action.key == MEMORY]
        new = len(_decided(books) - _decided([snapshot.memory.get(MEMORY)]))
        self.cpu.extend(cpu / new for _ in range(new))
        self.wall.extend(wall / new for _ in range(new))
        return decision


def timed(servers: int, seed: int, jobs: int = JOBS) -> Timed:
    """Run ``jobs`` jobs over 100 time slots, on ``servers`` servers for workers and as many for ps; return the policy
    with its times.
    """
    policy = oasis(SLOTS)
    clock = Timed(policy.slot_seconds, policy.horizon, policy.end)
    run(trace(Draw(jobs, servers=servers, slots=SLOTS), seed), clock, SLOTS)
    return clock


def _decided(books: Iterable[object]) -> set[str]:
    return {uid for book in books if isinstance(book, Book) for uid in (*book.plans, *book.rejected)}
