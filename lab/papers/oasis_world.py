"""Run an OASiS experiment: every system gets the same jobs in the job-level simulator.

A job is worth f(time slots from its arrival to its completion), with 0 for the time slot of its arrival. A job that
does not complete within the timespan T is worth nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.papers.oasis_jobs import SLOT_SECONDS
from lab.sim.engine import START
from lab.sim.fluid.fluidrun import simulate
from lab.sim.fluid.fluidsettings import FluidSettings
from lab.sim.fluid.speedmodels import Linear
from lab.sim.objects import JobSpec
from lab.sim.report import JobOutcome, RunResult
from lab.sim.rivals.dorm import Dorm
from lab.sim.traces import Trace
from lab.sim.utilityslots import completion, delay
from policy.cluster.snapshot import Rules
from policy.cluster.training import Utility
from policy.systems.backfill import FifoBackfill
from policy.systems.base import Policy
from policy.systems.baselines import Fifo
from policy.systems.drf import Drf
from policy.systems.oasis import Oasis
from policy.systems.rrh import Rrh


def oasis(slots: int, **parameters: object) -> Oasis:
    """Return OASiS with a timespan of ``slots`` time slots from the simulator's start."""
    end = START + slots * SLOT_SECONDS
    return Oasis(slot_seconds=SLOT_SECONDS, horizon=slots, end=end, **parameters)  # type: ignore[arg-type]


def rivals() -> dict[str, Policy]:
    """Return the four rivals of OASiS's section V-A, and FIFO with backfill."""
    found: tuple[Policy, ...] = (Fifo(), FifoBackfill(), Drf(), Rrh(slot_seconds=SLOT_SECONDS), Dorm())
    return {policy.name: policy for policy in found}


@dataclass(frozen=True, slots=True)
class Earned:
    """The result of one run: the total utility of jobs that completed in time, and each completed job's lateness.

    Lateness is completion less target, in time slots. ``finished`` counts the jobs that completed in time.
    """

    utility: float
    lateness: dict[str, float]
    rejected: int
    finished: int


def run(trace: Trace, policy: Policy, slots: int, *, drain: bool = False, restart: float = 0.0) -> Earned:
    """Run the trace under the policy for T = ``slots`` time slots, and return what the jobs were worth.

    With ``drain``, the run goes on for up to 20 T, so that the lateness of late jobs is known; they are still worth
    nothing. ``restart`` is the seconds that a start, a resume after a pause, and a resize take; the paper has none.
    """
    settings = FluidSettings(
        rules=Rules(largest_gang=10_000), speeds=Linear(), tick_seconds=SLOT_SECONDS,
        start_seconds=restart, grow_seconds=restart, shrink_seconds=restart,
        report_seconds=SLOT_SECONDS if isinstance(policy, Rrh) else None,
        horizon=(20 if drain else 1) * slots * SLOT_SECONDS, quiet_seconds=2 * slots * SLOT_SECONDS,
    )  # fmt: skip
    return earned(trace, simulate(trace, policy, settings), slots)


def earned(trace: Trace, result: RunResult, slots: int) -> Earned:
    """Return the utility and lateness of a run over ``slots`` time slots. Raises ValueError for a job without a
    curve.
    """
    specs = {job.name: job for job in trace.jobs}
    done = [job for job in result.jobs if job.finished]
    intime = [job for job in done if completion(job.ended, SLOT_SECONDS) < slots]
    worth = sum(_curve(specs[job.name]).at(_delay(job)) for job in intime)
    late = {job.name: _delay(job) - _curve(specs[job.name]).target for job in done}
    return Earned(worth, late, result.rejected, len(intime))


def _delay(job: JobOutcome) -> int:
    return delay(job.arrival, job.ended, SLOT_SECONDS)


def _curve(job: JobSpec) -> Utility:
    curve = job.training.utility if job.training is not None else None
    if curve is None:
        raise ValueError(
            f"jobs: {job.name} has no utility curve (value, steepness, target), which this world needs; give it one"
        )
    return curve
