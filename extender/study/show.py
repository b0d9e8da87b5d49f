"""Tables of a study for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from extender.study.papers import Judged, Outcome
from policy.sim.papers.base import Bar


def table(to: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """A plain table; the first ``left`` columns are words, the others numbers."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        shown.add_column(column, justify="left" if index < left else "right", overflow="fold")
    for row in rows:
        shown.add_row(*row)
    to.print(shown)


def number(value: float) -> str:
    """Four digits, without an exponent for what people read."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def outcome(to: Console, found: Outcome) -> None:
    """One experiment: what it is, every bar, what was assumed, every mutant."""
    experiment = found.experiment
    first, last = found.seeds[0], found.seeds[-1]
    to.print(f"{experiment.name}: {experiment.title} ({experiment.source}); seeds {first}-{last}")
    table(to, ("BAR", "PAPER", "OURS", "NEEDED", "VERDICT"), [_bar(judged) for judged in found.bars], 2)
    for judged in found.bars:
        if not judged.met and judged.bar.reason:
            to.print(f"  {judged.bar.claim}: {judged.bar.reason}")
    for text in experiment.assumed:
        to.print(f"  assumed: {text}")
    for mutant in found.mutants:
        values = "; ".join(f"{j.bar.claim}: {_value(j)}{' (met)' if j.met else ''}" for j in mutant.bars)
        to.print(f"  mutant {mutant.name}: {'caught' if mutant.caught else 'NOT CAUGHT'} ({values})")
    to.print()


def counts(found: Sequence[Outcome]) -> dict[str, int]:
    """Bars met and missed, mutants caught and not."""
    bars = [judged.met for one in found for judged in one.bars if bounded(judged.bar)]
    mutants = [mutant.caught for one in found for mutant in one.mutants]
    return {
        "met": sum(bars),
        "missed": len(bars) - sum(bars),
        "mutants_caught": sum(mutants),
        "mutants_missed": len(mutants) - sum(mutants),
    }


def summary(found: Sequence[Outcome]) -> str:
    """The last line: bars met and missed."""
    count = counts(found)
    caught, missed = count["mutants_caught"], count["mutants_missed"]
    mutants = f"; mutants caught: {caught} of {caught + missed}" if caught + missed else ""
    return f"bars met: {count['met']}, missed: {count['missed']}{mutants}"


def bounded(bar: Bar) -> bool:
    """Whether anything is needed; else the number is only reported."""
    return bar.at_least is not None or bar.at_most is not None


def _bar(judged: Judged) -> tuple[str, ...]:
    bar = judged.bar
    verdict = ("met" if judged.met else "MISSED") if bounded(bar) else "reported"
    return bar.claim, bar.paper or "-", _value(judged), _needed(bar), verdict


def _value(judged: Judged) -> str:
    return f"{number(judged.value)}{_unit(judged.bar)}"


def _needed(bar: Bar) -> str:
    low = [f">= {number(bar.at_least)}{_unit(bar)}"] if bar.at_least is not None else []
    high = [f"<= {number(bar.at_most)}{_unit(bar)}"] if bar.at_most is not None else []
    return " and ".join([*low, *high]) or "-"


def _unit(bar: Bar) -> str:
    return f" {bar.unit}" if bar.unit else ""
