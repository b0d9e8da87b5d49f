"""What OASiS's utility hangs on: the price ratio U / L, how U and L are known, L as printed, and what a restart costs.

`oasis-load` has one price ratio and the bounds of the jobs seen so far, as a service; `oasis-optimum` gives OASiS the
bounds of all jobs. Here both stand side by side on the same jobs, beside the paper's own L (equations 25 and 26).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.papers.experiment import Bar, Experiment, Mutant, Row, mean, ratio
from lab.papers.oasis_jobs import SLOT_SECONDS, Draw, trace
from lab.papers.oasis_optimum import known
from lab.papers.oasis_world import oasis, run
from lab.papers.published import above
from lab.sim.traces import Trace
from policy.systems.base import Policy
from policy.systems.drf import Drf
from policy.systems.oasis.prices import Floor
from policy.systems.rrh import Rrh

SLOTS = 100
RATIOS = (1e2, 5e2, 1e3, 1.5e3, 2e3, 4e3, 1e4, 1e5)
SCARCE = 400  # The number of jobs at which the price ratio decides most.
LOADS = (50, 100)
RESTART_SECONDS = 30.0
DEFAULT = 1e4


def ratios(seed: int) -> Row:
    """Run 400 jobs at each price ratio and with L as printed, under DRF and under RRH; return the utilities."""
    drawn = trace(Draw(SCARCE), seed)
    row = {f"ratio {price:g}": _earned(drawn, oasis(SLOTS, price_ratio=price)) for price in RATIOS}
    row["printed"] = _earned(drawn, oasis(SLOTS, floor=Floor.PAPER, known=known(drawn, SLOTS)))
    return row | {policy.name: _earned(drawn, policy) for policy in _rivals()}


def one_ratio(seed: int) -> Row:
    """Return the measures of a deliberately changed run (a mutant): every price ratio is taken as 10."""
    value = _earned(trace(Draw(SCARCE), seed), oasis(SLOTS, price_ratio=10.0))
    return {f"ratio {price:g}": value for price in RATIOS}


def bounds(seed: int) -> Row:
    """Run 50 and 100 jobs under OASiS with each way to know U and L, and every system also with restarts that cost
    time.
    """
    row: dict[str, float] = {}
    for jobs in LOADS:
        drawn = trace(Draw(jobs), seed)
        for name, policy in {**_ways(drawn), **{one.name: one for one in _rivals()}}.items():
            row[f"{name}/{jobs}"] = _earned(drawn, policy)
            row[f"{name}, restarts/{jobs}"] = _earned(drawn, policy, RESTART_SECONDS)
    return row


def _rivals() -> tuple[Policy, ...]:
    return Drf(), Rrh(slot_seconds=SLOT_SECONDS)


def _ways(drawn: Trace) -> Mapping[str, Policy]:
    """Return OASiS with the bounds of the jobs seen so far, with those of all jobs, and with the paper's L."""
    every = known(drawn, SLOTS)
    return {
        "seen": oasis(SLOTS),
        "known": oasis(SLOTS, known=every),
        "printed": oasis(SLOTS, floor=Floor.PAPER, known=every),
    }


def _earned(drawn: Trace, policy: Policy, restart: float = 0.0) -> float:
    return run(drawn, policy, SLOTS, restart=restart).utility


def _least_sensitive(rows: Sequence[Row]) -> float:
    """Return the lowest mean utility of the price ratios from 1e3 to 1e4, over the highest."""
    found = [mean(f"ratio {price:g}")(rows) for price in RATIOS if 1e3 <= price <= DEFAULT]
    return min(found) / max(found)


BEST = "OASiS performs the best (Figure 4)"
CURVE = "utility over DRF's, lowest of the price ratios from 5e2"


def _of_ratios() -> tuple[Bar, ...]:
    bars = [
        Bar(CURVE, lambda rows: min(ratio(f"ratio {price:g}", "drf")(rows) for price in RATIOS if price >= 5e2),
            at_least=1.0, paper=BEST, published=above(1.0)),
        Bar("lowest over highest utility, price ratios from 1e3 to 1e4", _least_sensitive),
    ]  # fmt: skip
    for name in (*(f"ratio {price:g}" for price in RATIOS), "printed"):
        what = f"price {name}" if name != "printed" else "L as printed"
        bars += [
            Bar(f"{what}: utility over {rival.upper()}'s", ratio(name, rival), paper=BEST, published=above(1.0))
            for rival in ("rrh", "drf")
        ]
    return tuple(bars)


WAYS = {
    "seen": "U and L of the jobs seen so far",
    "known": "U and L of all jobs",
    "printed": "L as printed",
}


def _of_bounds() -> tuple[Bar, ...]:
    bars = []
    for jobs in LOADS:
        for way, text in WAYS.items():
            for suffix, cost in (("", "restarts are free"), (", restarts", "restarts take 30 s")):
                bars += [
                    Bar(f"{jobs} jobs, {text}, {cost}: utility over {rival.upper()}'s",
                        ratio(f"{way}{suffix}/{jobs}", f"{rival}{suffix}/{jobs}"), paper=BEST, published=above(1.0))
                    for rival in ("drf", "rrh")
                ]  # fmt: skip
    return tuple(bars)


RATIO = Experiment(
    name="oasis-price-ratio",
    system="oasis",
    title="400 jobs, T = 100, 50 + 50 servers, by price ratio, and with L as printed",
    source="OASiS, section V-A, Figure 4 (left); the price ratio is ours",
    measure=ratios,
    bars=_of_ratios(),
    mutants=(Mutant("idle resources at a tenth of their highest price", one_ratio, (CURVE,)),),
    assumed=(
        "jobs and servers are those of oasis-load; with L as printed, U and L are those of all jobs, and else of the "
        "jobs seen so far",
    ),
)
BOUNDS = Experiment(
    name="oasis-bounds",
    system="oasis",
    title="50 and 100 jobs: U and L of the jobs seen or of all jobs, L as printed, and restarts that take 30 s",
    source="OASiS, section V-A, Figure 4 (left)",
    measure=bounds,
    bars=_of_bounds(),
    assumed=(
        "jobs and servers are those of oasis-load; where restarts take 30 s, so do starts, resumes after a pause, and "
        "resizes, under every system; a slot has 4000 s",
    ),
)

EXPERIMENTS = (RATIO, BOUNDS)
