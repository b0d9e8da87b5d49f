"""SpeCon (Mao et al., 2021), section VI, against the default scheduler, from the same initial placement."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lab.papers import specongamma, speconmoves, specontable3
from lab.papers.experiment import Bar, Experiment, Mutant, Row, mean, quantile
from lab.papers.experiment import best as most
from lab.papers.published import effect, level
from lab.papers.speconfigures import draw_completion, draw_variants
from lab.papers.speconworld import (
    AS_RUN,
    ASSUMED,
    FIXED,
    MIXED,
    SCHEDULES,
    SETTINGS,
    UNEVEN,
    Setup,
    compare,
    named,
    per_job,
    run,
)
from policy.systems.base import Policy
from policy.systems.baselines import RoundRobin
from policy.systems.growth import Growth, Ladder
from policy.systems.moving import Balance
from policy.systems.specon import SpeCon
from policy.systems.speconchoices import Gate

LITERAL = replace(AS_RUN, growth=Growth.ABSOLUTE, ladder=Ladder.PRINTED, gate=Gate.PRINTED, balance=Balance.PRINTED)
VARIANTS: dict[str, SpeCon] = {
    "default": AS_RUN,
    "literal": LITERAL,
    "lines 10-12": replace(AS_RUN, ladder=Ladder.PRINTED),
    "printed gate": replace(AS_RUN, gate=Gate.PRINTED),
    "no gate, all migrated": replace(AS_RUN, gate=Gate.OPEN, balance=Balance.ALL_MIGRATED),
    "no Algorithm 3": replace(AS_RUN, balance=Balance.OFF),
    "Algorithm 3 for all": replace(AS_RUN, balance_any=True),
    "guard": replace(AS_RUN, guard=True),
    "alpha 0.05": replace(AS_RUN, alpha=0.05),
}


def against_default(setup: Setup, policy: Policy, seed: int) -> dict[str, float]:
    """Run one seed under the policy and under the default scheduler, and return the comparison (``compare``)."""
    return compare(run(setup, policy, seed), run(setup, RoundRobin(), seed))


def mixed(jobs: int, policy: Policy, seed: int) -> Row:
    """Run this number of mixed jobs under the policy and under the default scheduler, which places round robin.

    Return the comparison of the two runs (``compare``), and each job's completion times in both runs for the figure.
    """
    ours, plain = run(MIXED[jobs], policy, seed), run(MIXED[jobs], RoundRobin(), seed)
    times = {**per_job("default", plain.seconds), **per_job("specon", ours.seconds)}
    return {**compare(ours, plain), "plain": sum(plain.seconds) / jobs, "plain makespan": plain.makespan, **times}


def without_reports(jobs: int, seed: int) -> Row:
    """Return the measures of a deliberately changed run (a mutant): jobs report no metric, so that every job counts as
    neutral and none is moved.
    """
    silent = replace(SETTINGS, report_seconds=None)
    ours, plain = run(MIXED[jobs], AS_RUN, seed, silent), run(MIXED[jobs], RoundRobin(), seed)
    return compare(ours, plain)


FIVE_A_NODE = (
    "19.2 % is reached, where jobs share a node without loss: they are spread evenly over the nodes until some nodes "
    "become idle, and a job can gain only from then on. specon-gamma has the results where sharing "
    "costs speed; the paper does not say what its machines lose"
)
PAPER = {
    20: ("-13.6 %", "-24.7 %", "31.6 % (job 14)", "75 %"),
    30: ("-7.6 %", "-14.8 %", "28.8 % (job 5)", "60 %"),
    50: ("-7.2 %", "-11.1 %", "41.9 % (job 34, Figure 12)", "60 %"),
}
NUMBERS = {20: (-13.6, -24.7, 31.6, 75.0), 30: (-7.6, -14.8, 28.8, 60.0), 50: (-7.2, -11.1, 41.9, 60.0)}
# The bounds on average and makespan guard against regressions. At 20 and 30 jobs they are far from the paper's numbers,
# with which the columns DIRECTION and SIZE of `kohort paper` compare.
MOST = {20: (-3.0, -8.0), 30: (-2.5, -7.0), 50: (-7.2, -11.1)}


def _mixed_bars(jobs: int) -> tuple[Bar, ...]:
    average, makespan, best, better = PAPER[jobs]
    most_average, most_makespan = MOST[jobs]
    of_average, of_makespan, of_best, of_better = NUMBERS[jobs]
    return (
        Bar("average completion time", mean("average"), at_most=most_average, unit="%", paper=average,
            published=effect(of_average)),
        Bar("makespan", mean("makespan"), at_most=most_makespan, unit="%", paper=makespan,
            published=effect(of_makespan)),
        Bar("best job", mean("best"), at_least=25.0, unit="%", paper=best, reason=FIVE_A_NODE if jobs == 20 else "",
            published=effect(of_best)),
        Bar("best job of all seeds", most("best"), unit="%"),
        Bar("jobs better", mean("better"), at_least=50.0, unit="%", paper=better, published=level(of_better)),
        Bar("worst job", mean("worst"), unit="%", paper="36.6 % (job 16, Figure 12)" if jobs == 50 else "",
            published=effect(36.6) if jobs == 50 else None),
        Bar("median completion time", mean("median"), unit="%", paper="+9.0 % (Figure 12)" if jobs == 50 else "",
            published=effect(9.0) if jobs == 50 else None),
        Bar("average, best tenth of seeds", quantile("average", 0.1), unit="%"),
        Bar("average without moves", mean("plain"), unit="s"),
        Bar("moves", mean("moves")),
    )  # fmt: skip


def _mutants(jobs: int) -> tuple[Mutant, ...]:
    """Return the mutants of the experiment with this number of jobs.

    A mutant without Algorithm 3 is there only with 20 jobs. With more jobs, late arrivals leave nodes idle, which
    Algorithm 2 fills as well, because an empty node has the least score.
    """
    missed = ("average completion time", "makespan", "jobs better")
    still = (*missed, "best job")  # Mutants under which no job is moved miss these bars.
    found = [
        Mutant("the algorithms as printed", partial(mixed, jobs, LITERAL), still),
        Mutant("lines 10-12 as printed", partial(mixed, jobs, VARIANTS["lines 10-12"]), still),
        Mutant("no reports", partial(without_reports, jobs), still),
    ]
    if jobs == 20:
        found.append(Mutant("no Algorithm 3", partial(mixed, jobs, VARIANTS["no Algorithm 3"]), missed))
    return tuple(found)


def _mixed_experiment(jobs: int) -> Experiment:
    return Experiment(
        name=f"specon-mixed-{jobs}",
        system="specon",
        title=f"{jobs} jobs of mixed models on {MIXED[jobs].workers} workers",
        source={20: "SpeCon, Figure 6", 30: "SpeCon, Figure 7", 50: "SpeCon, Figure 12"}[jobs],
        measure=partial(mixed, jobs, AS_RUN),
        bars=_mixed_bars(jobs),
        mutants=_mutants(jobs),
        figure=draw_completion,
        assumed=ASSUMED,
    )


def fixed(policy: Policy, seed: int) -> Row:
    """Run 20 VAE jobs, one every 50 s, under the policy and under the default scheduler; return their comparison.

    Measures that begin with ``uneven`` are of jobs whose sizes differ more, ``literal`` of the algorithms as printed.
    """
    ours, plain = run(FIXED, policy, seed), run(FIXED, RoundRobin(), seed)
    return {
        **compare(ours, plain),
        "plain": sum(plain.seconds) / FIXED.jobs,
        **named("literal", against_default(FIXED, LITERAL, seed)),
        **named("uneven", against_default(UNEVEN, policy, seed)),
        **per_job("default", plain.seconds),
        **per_job("specon", ours.seconds),
    }


def no_balance(seed: int) -> Row:
    """Return the measures of a deliberately changed run (a mutant): SpeCon runs without Algorithm 3, which balances the
    nodes.
    """
    return compare(run(FIXED, VARIANTS["no Algorithm 3"], seed), run(FIXED, RoundRobin(), seed))


def readable(seed: int) -> Row:
    """Return the measures of a deliberately changed run (a mutant) of ``literal``: only Algorithm 3 is as printed, and
    the rest follows the paper's text.
    """
    repaired = replace(AS_RUN, gate=Gate.OPEN, balance=Balance.PRINTED)
    return named("literal", against_default(FIXED, repaired, seed))


NO_GAIN = "SpeCon itself misses the bar, and so does every variant of it"
NO_IDLE_NODE = (
    "jobs that arrive one after another leave no node idle for long: without moves the makespan is the same to "
    "within 1 %"
)
AS_PRINTED = "moves of the algorithms as printed"
WRONG_JOB = (
    "+0.7 % is reached, and the paper's number is not reproducible from its text: among jobs of one size the converged "
    "job is the next to end, and slowing it down in favour of younger jobs is the opposite of shortest remaining time "
    "first. specon-gamma has the results with contention, and sizes that vary by a quarter give -3.6 %"
)
FIXED_SCHEDULE = Experiment(
    name="specon-fixed",
    system="specon",
    title="20 VAE jobs, one every 50 s, on 4 workers",
    source="SpeCon, section VI-B, Figure 5",
    measure=partial(fixed, AS_RUN),
    bars=(
        Bar(
            "average completion time",
            mean("average"),
            at_most=-0.01,
            unit="%",
            paper="-14.7 %",
            reason=WRONG_JOB,
            untested=NO_GAIN,
            published=effect(-14.7),
        ),
        Bar(
            "makespan",
            mean("makespan"),
            at_most=0.0,
            unit="%",
            paper="-5.6 %",
            untested=NO_IDLE_NODE,
            published=effect(-5.6),
        ),
        Bar("average without moves", mean("plain"), unit="s", paper="275.2 s", published=level(275.2)),
        Bar("best job", mean("best"), unit="%", paper="37.6 %", published=effect(37.6)),
        Bar("worst job", mean("worst"), unit="%"),
        Bar("jobs better", mean("better"), unit="%", paper="55 %", published=level(55.0)),
        Bar("moves", mean("moves")),
        Bar("average, sizes that differ by a quarter", mean("uneven/average"), unit="%"),
        Bar(AS_PRINTED, mean("literal/moves"), at_most=0.0),
    ),
    mutants=(
        Mutant("no Algorithm 3", no_balance, reason=NO_IDLE_NODE),
        Mutant("growth, ladder and gate by the text", readable, (AS_PRINTED,)),
    ),
    figure=draw_completion,
    assumed=ASSUMED,
)


def variants(seed: int) -> Row:
    """Run every variant of SpeCon on every schedule of the paper; compare each with the default scheduler."""
    row: dict[str, float] = {}
    for jobs, setup in SCHEDULES.items():
        plain = run(setup, RoundRobin(), seed)
        for name, policy in VARIANTS.items():
            row |= named(f"{name}/{jobs}", compare(run(setup, policy, seed), plain))
    return row


def _variant_bars() -> tuple[Bar, ...]:
    return tuple(
        Bar(f"{name}, {jobs}: {measure}", mean(f"{name}/{jobs}/{measure}"), unit="%")
        for name in VARIANTS
        for jobs in SCHEDULES
        for measure in ("average", "makespan", "worst")
    )


VARIANT_TABLE = Experiment(
    name="specon-variants",
    system="specon",
    title="The printed and the repaired variants on all four schedules",
    source="SpeCon, Algorithms 1 and 3 as printed",
    measure=variants,
    bars=_variant_bars(),
    figure=draw_variants,
    assumed=ASSUMED,
)

EXPERIMENTS = (
    *(_mixed_experiment(jobs) for jobs in MIXED),
    FIXED_SCHEDULE,
    VARIANT_TABLE,
    *specontable3.EXPERIMENTS,
    *specongamma.EXPERIMENTS,
    *speconmoves.EXPERIMENTS,
)
