"""OASiS's Figure 6: small instances against the offline optimum, by servers and utility range; wrong U and L."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from statistics import fmean

from lab.papers.experiment import Bar, Experiment, Mutant, OverAllSeeds, Row, best, mean, quantile_of, ratio
from lab.papers.oasis_figures import draw_optimum
from lab.papers.oasis_jobs import SLOT_SECONDS, Draw, tiny, trace, with_flat_utility
from lab.papers.oasis_world import oasis, run
from lab.papers.published import Published, above, at_most
from lab.sim.engine import START
from lab.sim.objects import JobObject, job_fact
from lab.sim.optimum import Optimum, SolverLimits, optimum
from lab.sim.traces import Trace
from policy.cluster.job import PS, WORKER
from policy.systems.oasis.planner import Window, seen_of
from policy.systems.oasis.prices import Floor, Ground, Pricing
from policy.systems.oasis.schedule import Seen
from policy.systems.oasis.workload import work_of

SLOTS = 10
JOBS = 10
# Cases named N+N have N servers for workers and N for ps; cases named 1-M have 3 + 3 servers and priorities from 1 to
# M.
CASES: dict[str, Draw] = {
    **{f"{n}+{n}": tiny(JOBS, n, SLOTS) for n in (2, 3, 4)},
    **{f"1-{most}": replace(tiny(JOBS, 3, SLOTS), priority=(1.0, most)) for most in (10, 50)},
}
WRONG = (0.1, 0.5, 2.0, 10.0)
# The solver stops at this relative gap, or after this many nodes of its search tree, whatever time that takes.
LIMITS = SolverLimits(gap=0.01, seconds=None, nodes=1500)


@cache
def _best(case: str, seed: int) -> Optimum:
    return optimum(trace(CASES[case], seed), SLOT_SECONDS, SLOTS, LIMITS)


def known(drawn: Trace, slots: int = SLOTS) -> tuple[Seen, ...]:
    """Return the facts about every job from which the exact bounds U and L follow (OASiS, equations 23-26); the
    timespan has ``slots`` time slots.
    """
    first = math.floor(START / SLOT_SECONDS)
    jobs = (job_fact(JobObject(spec.name, spec, created=START + spec.arrival)) for spec in drawn.jobs)
    return tuple(seen_of(work_of(job, SLOT_SECONDS), Window(first, slots)) for job in jobs)


def alpha(drawn: Trace) -> float:
    """Return alpha of OASiS's Theorem 4 for these jobs and servers: the optimum is at most 2 alpha times OASiS's
    utility.
    """
    seen = known(drawn)
    names = {name for one in seen for requests in (one.worker, one.server) for name in requests}
    ground = Ground.of([(node, node.allocatable) for node in drawn.nodes], names)
    found = (Pricing(Floor.PAPER).bounds(ground, seen, role, SLOTS) for role in (WORKER, PS))
    return max((bounds.alpha for bounds in found if bounds is not None), default=1.0)


def _true_utility(drawn: Trace, described: Trace | None = None, **parameters: object) -> float:
    described = described or drawn
    found = run(described, oasis(SLOTS, known=known(described), **parameters), SLOTS)
    if described is drawn:
        return found.utility
    curves = {job.name: job.training.utility for job in drawn.jobs if job.training and job.training.utility}
    return sum(curves[name].at(late + curves[name].target) for name, late in found.lateness.items())


def small(seed: int) -> Row:
    """Run each case, and the case of 3 + 3 servers also with the paper's L and with wrong estimates of U and L."""
    row: dict[str, float] = {}
    for case, draw in CASES.items():
        drawn = trace(draw, seed)
        row |= _instance(case, seed, _true_utility(drawn))
        row[f"seen_{case}"] = run(drawn, oasis(SLOTS), SLOTS).utility
    row["closed"] = sum(_best(case, seed).proved for case in CASES) / len(CASES)
    drawn = trace(CASES["3+3"], seed)
    literal = _true_utility(drawn, floor=Floor.PAPER)
    best = max(row["optimum_3+3"], literal)
    row |= {"literal": literal, "proved": best / (2.0 * alpha(drawn) * literal) if literal else math.inf}
    for scale in WRONG:
        row[f"wrong_U x {scale:g}"] = _true_utility(drawn, u_scale=scale)
        row[f"wrong_L x {scale:g}"] = _true_utility(drawn, l_scale=scale)
    return row


def _instance(case: str, seed: int, ours: float) -> dict[str, float]:
    """Return, under the case's name, the utility of the optimum and OASiS's utility ``ours``.

    If the solver was stopped, OASiS's schedule may be better than the best one that the solver found.
    """
    return {f"optimum_{case}": max(_best(case, seed).utility, ours), f"oasis_{case}": ours}


def _mutant(seed: int, *, flat: bool = False, **parameters: object) -> Row:
    instances = {case: trace(draw, seed) for case, draw in CASES.items()}
    return {
        f"oasis_{case}": _true_utility(drawn, with_flat_utility(drawn) if flat else None, **parameters)
        for case, drawn in instances.items()
    }


def low_price_ratio(seed: int) -> Row:
    """Return the measures of a deliberately changed run (a mutant): an idle resource costs a tenth of the resource's
    highest price.
    """
    return _mutant(seed, price_ratio=10.0)


def flat_utility(seed: int) -> Row:
    """Return the measures of a deliberately changed run (a mutant): OASiS is told that the utility of a job does not
    depend on when it completes.
    """
    return _mutant(seed, flat=True)


def _sum_ratio(case: str) -> Callable[[Sequence[Row]], float]:
    return ratio(f"optimum_{case}", f"oasis_{case}")


def _worst_sum(rows: Sequence[Row]) -> float:
    return max(_sum_ratio(case)(rows) for case in CASES)


def _worst(rows: Sequence[Row]) -> float:
    """Return the highest ratio of the optimum to OASiS's utility among all instances of all cases."""
    return _ratios(rows)[-1]


def _ratios(rows: Sequence[Row]) -> list[float]:
    """Return the ratio of the optimum to OASiS's utility of every instance, sorted."""
    return sorted(_over(row[f"optimum_{case}"], row[f"oasis_{case}"]) for row in rows for case in CASES)


def _mean_instance(rows: Sequence[Row]) -> float:
    return fmean(_ratios(rows))


def _p95_instance(rows: Sequence[Row]) -> float:
    return quantile_of(_ratios(rows), 0.95)


def _worst_seen(rows: Sequence[Row]) -> float:
    return max(ratio(f"optimum_{case}", f"seen_{case}")(rows) for case in CASES)


def _low_over_high(what: str) -> Callable[[Sequence[Row]], float]:
    """Return a function that divides the utility with ``what`` (U or L) too low by that with it too high."""
    low, high = ([f"wrong_{what} x {scale:g}" for scale in WRONG if (scale < 1) is under] for under in (True, False))
    return lambda rows: fmean(mean(name)(rows) for name in low) / fmean(mean(name)(rows) for name in high)


def _over(best: float, ours: float) -> float:
    return best / ours if ours > 0 else (math.inf if best > 0 else 1.0)


def _against_right(wrong: str) -> Callable[[Sequence[Row]], float]:
    return ratio(wrong, "oasis_3+3")


ALONE = (
    "3.27 is reached. OASiS charges a job the prices from before its admission (equation 22), and with two servers one "
    "job takes most of the capacity of its slots: the first job to arrive pays the prices of an empty cluster, "
    "whatever arrives a slot later. The proof's premise, that w is much less than c, does not hold, and an admitted "
    "job stays. With literal prices, and with any price ratio from 1e3, the same instances are the worst, and prices "
    "that grow within a job were no remedy in a trial outside this code (2026-11-25: worst 2.5 to 6.8, and 2 to 16 % "
    "less utility). The paper claims no worst case"
)
CLOSE = Published()  # The text has no number, and "close" has no direction.
SUMS = "optimum over OASiS, sums, worst case of servers and priorities"
WORST = "optimum over OASiS, worst instance"
WIDE = "2 alpha is 35 to 118 here, so only a schedule that admits hardly any job would exceed the bound"
SMALL = Experiment(
    name="oasis-optimum",
    system="oasis",
    title="10 jobs, T = 10: offline optimum over OASiS",
    source="OASiS, section V-A, Figure 6",
    measure=small,
    bars=(
        Bar(SUMS, _worst_sum, at_most=1.5,
            paper="a ratio close to 1 (the numbers are lost)", published=CLOSE),
        Bar(WORST, OverAllSeeds(_worst), at_most=2.5, reason=ALONE),
        Bar("share of instances whose optimum is proved", mean("closed")),
        Bar("literal mode: ratio over 2 alpha, worst instance", best("proved"),
            at_most=1.0, paper="2 alpha-competitive (Theorem 4)", untested=WIDE, published=at_most(1.0)),
        *(Bar(f"optimum over OASiS, {case}", _sum_ratio(case), paper="no trend with servers or priorities",
              published=CLOSE)
          for case in CASES),
        Bar("optimum over OASiS, mean of the instances", _mean_instance),
        Bar("optimum over OASiS, p95 of the instances", OverAllSeeds(_p95_instance)),
        Bar("optimum over OASiS with U and L of the jobs seen so far, sums, worst case", _worst_seen,
            paper="a ratio close to 1 (the numbers are lost)", published=CLOSE),
        *(Bar(f"utility with {what} x {scale:g}, over that with the right one",
              _against_right(f"wrong_{what} x {scale:g}"))
          for what in "UL" for scale in WRONG),
        *(Bar(f"utility where {what} is estimated too low, over that where it is too high", _low_over_high(what),
              paper="under-estimates do better than over-estimates (Figure 6)", published=above(1.0))
          for what in "UL"),
    ),
    mutants=(
        Mutant("idle resources at a tenth of their highest price", low_price_ratio, (SUMS, WORST)),
        Mutant("completion times are worth nothing", flat_utility, (SUMS,)),
    ),
    figure=draw_optimum,
    assumed=(
        "a job has 5 to 12 chunks and needs at most 5 slots with all its workers; jobs arrive in 6 of the 10 slots; "
        "U and L are computed from all jobs",
        "the optimum is that of HiGHS to a gap of 1 %, or the best schedule found in 1,500 nodes of its search tree",
    ),
)  # fmt: skip
