"""Show the deadlock of jobs whose pods are placed one by one (DRAGON, sections 2.3 and 3.1), which gang scheduling
avoids.

The five papers' systems run on the same traces, and no job may deadlock under them.
"""

from __future__ import annotations

from functools import cache

from lab.papers.dragonworld import rigid_jobs, run
from lab.papers.experiment import Bar, Experiment, Mutant, Row, share
from policy.systems import make_policy
from policy.systems.base import Policy
from policy.systems.baselines import FifoPod, Retry

FIVE = ("kod2", "drs", "dragon", "specon", "oasis")
DEADLOCKS = {"2x5": (2, 5), "6x4": (6, 4)}
BASELINE = "the bar measures the baseline alone, and the mutant changes the five systems"


def deadlock(seed: int) -> Row:
    """Run each trace pod by pod and under the five systems; return how many jobs never finish in either case."""
    return {
        **{f"without gang/{name}": _left(name, FifoPod(Retry.RANDOM, seed)) for name in DEADLOCKS},
        **{f"with gang/{name}": _left_by_the_five(name) for name in DEADLOCKS},
    }


def without_gang(seed: int) -> Row:
    """Return the measures of a deliberately changed run (a mutant): the pod-by-pod baseline runs in place of the five
    systems.
    """
    return {f"with gang/{name}": _left(name, FifoPod(Retry.RANDOM, seed)) for name in DEADLOCKS}


def _left(name: str, policy: Policy) -> float:
    return float(len(run(rigid_jobs(*DEADLOCKS[name]), policy).never_finished))


@cache
def _left_by_the_five(name: str) -> float:
    """Return how many jobs of that trace never finish, summed over the five systems.

    No system is random, so the number is the same for every seed.
    """
    return sum(_left(name, make_policy(policy)) for policy in FIVE)


def _stuck(lost: float) -> bool:
    return lost > 0


DEADLOCK = Experiment(
    name="dragon-deadlock",
    system="dragon",
    title="Jobs that together ask for more than the cluster has",
    source="DRAGON, sections 2.3 and 3.1",
    measure=deadlock,
    bars=(
        Bar(
            "seeds that deadlock without gang, 2 jobs of 5 on 8",
            share("without gang/2x5", _stuck),
            0.4,
            untested=BASELINE,
        ),
        Bar(
            "seeds that deadlock without gang, 6 jobs of 4 on 8",
            share("without gang/6x4", _stuck),
            0.95,
            untested=BASELINE,
        ),
        Bar("seeds that deadlock under any of the five, 2 jobs of 5", share("with gang/2x5", _stuck), None, 0.0),
        Bar("seeds that deadlock under any of the five, 6 jobs of 4", share("with gang/6x4", _stuck), None, 0.0),
    ),
    seeds=100,
    mutants=(
        Mutant(
            "no gang",
            without_gang,
            (
                "seeds that deadlock under any of the five, 2 jobs of 5",
                "seeds that deadlock under any of the five, 6 jobs of 4",
            ),
        ),
    ),
)

EXPERIMENTS = (DEADLOCK,)
