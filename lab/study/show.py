"""Print the tables of a study for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from lab.papers.experiment import Bar
from lab.papers.published import SAME_SIZE
from lab.study.papers import ExperimentOutcome, Judged, MutantOutcome

# DIRECTION and SIZE tell whether the paper's number is reproduced; VERDICT is about our own bound (NEEDED).
COLUMNS = ("BAR", "PAPER", "OURS", "P10-P90", "DIRECTION", "SIZE", "NEEDED", "VERDICT")
REPRODUCED = {None: "-", True: "yes", False: "NO"}


def table(to: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """Print a plain table; the first ``left`` columns hold words, the others numbers."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        shown.add_column(column, justify="left" if index < left else "right", overflow="fold")
    for row in rows:
        shown.add_row(*row)
    to.print(shown)


def number(value: float) -> str:
    """Return the number as text with four digits; from 1000 on it is rounded to a whole number, without an exponent."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def outcome(to: Console, found: ExperimentOutcome) -> None:
    """Print the result of one experiment: title, every bar, the assumptions, and every mutant."""
    experiment = found.experiment
    first, last = found.seeds[0], found.seeds[-1]
    to.print(f"{experiment.name}: {experiment.title} ({experiment.source}); seeds {first}-{last}")
    table(to, COLUMNS, [_bar(judged) for judged in found.bars], 2)
    for judged in found.bars:
        if not judged.met and judged.bar.reason:
            to.print(f"  {judged.bar.claim}: {judged.bar.reason}")
    for text in experiment.assumed:
        to.print(f"  assumed: {text}")
    if found.mutants:
        _mutants(to, found)
    to.print()


def _mutants(to: Console, found: ExperimentOutcome) -> None:
    """Print a line for each mutant, and a table of the bars with bounds that each of them missed."""
    letters = [chr(ord("A") + index) for index in range(len(found.mutants))]
    for letter, one in zip(letters, found.mutants, strict=True):
        why = f": {one.mutant.reason}" if one.mutant.reason and not one.caught else ""
        found_out = "caught" if one.caught else "no bar depends on it" if one.without_bar else "NOT CAUGHT"
        to.print(f"  mutant {letter}, {one.mutant.name}: {found_out}{why}")
    rows = [
        (bar.claim, *(_cell(one, index) for one in found.mutants))
        for index, bar in enumerate(found.experiment.bars)
        if bar.bounded
    ]
    to.print(
        "  the bars that each mutant missed (*: named and missed; !: named and met; no mark: missed, but not named):"
    )
    table(to, ("BAR", *letters), rows)
    named = {claim for one in found.mutants for claim in one.mutant.misses}
    for bar in found.experiment.bars:
        if bar.bounded and bar.claim not in named:
            to.print(f"  no mutant is named for {bar.claim}: {bar.untested or 'UNTESTED'}")


def _cell(found: MutantOutcome, index: int) -> str:
    judged = found.bars[index]
    named = judged.bar.claim in found.mutant.misses
    if judged.met:
        return f"{_value(judged)} !" if named else "."
    return f"{_value(judged)} *" if named else _value(judged)


def counts(found: Sequence[ExperimentOutcome]) -> dict[str, int]:
    """Return the numbers of bars that are met and missed, and of mutants that are caught and not caught.

    "mutants_untold" counts the mutants that are expected to miss no bar. "directions" and "sizes" count the papers'
    statements that have a direction and a number, and "..._reproduced" those of them that our values reproduce.
    """
    bars = [judged.met for one in found for judged in one.bars if judged.bar.bounded]
    every = [mutant for one in found for mutant in one.mutants]
    mutants = [mutant.caught for mutant in every if not mutant.without_bar]
    values = [judged for one in found for judged in one.bars]
    directions = [judged.direction for judged in values if judged.direction is not None]
    sizes = [judged.size for judged in values if judged.size is not None]
    return {
        "met": sum(bars),
        "missed": len(bars) - sum(bars),
        "mutants_caught": sum(mutants),
        "mutants_missed": len(mutants) - sum(mutants),
        "mutants_untold": len(every) - len(mutants),
        "directions": len(directions),
        "directions_reproduced": sum(directions),
        "sizes": len(sizes),
        "sizes_reproduced": sum(sizes),
    }


def summary(found: Sequence[ExperimentOutcome]) -> str:
    """Return the last lines of the output, with the numbers of `counts`."""
    count = counts(found)
    caught, missed = count["mutants_caught"], count["mutants_missed"]
    mutants = f"; mutants caught: {caught} of {caught + missed}" if caught + missed else ""
    without = f"; without a bar: {count['mutants_untold']}" if count["mutants_untold"] else ""
    return f"{_reproduced(count)}bars met: {count['met']}, missed: {count['missed']}{mutants}{without}"


def _reproduced(count: Mapping[str, int]) -> str:
    """Return a line on the papers' statements, or nothing where no bar has one."""
    if not count["directions"] + count["sizes"]:
        return ""
    directions = f"direction of {count['directions_reproduced']} of {count['directions']}"
    sizes = (
        f"size of {count['sizes_reproduced']} of {count['sizes']} (within {100 * SAME_SIZE:g} % of the paper's effect)"
    )
    return f"the papers' statements: {directions} reproduced, {sizes}\n"


def _bar(judged: Judged) -> tuple[str, ...]:
    bar = judged.bar
    verdict = ("met" if judged.met else "MISSED") if bar.bounded else "reported"
    reproduced = (REPRODUCED[judged.direction], REPRODUCED[judged.size])
    return bar.claim, bar.paper or "-", _value(judged), _spread(judged), *reproduced, _needed(bar), verdict


def _value(judged: Judged) -> str:
    return f"{number(judged.value)}{_unit(judged.bar)}"


def _spread(judged: Judged) -> str:
    """Return p10 and p90 as text; ``=`` if both are printed alike, and ``-`` if there is no value for each seed."""
    if judged.spread is None:
        return "-"
    low, high = map(number, judged.spread)
    return "=" if low == high else f"{low} to {high}"


def _needed(bar: Bar) -> str:
    low = [f">= {number(bar.at_least)}{_unit(bar)}"] if bar.at_least is not None else []
    high = [f"<= {number(bar.at_most)}{_unit(bar)}"] if bar.at_most is not None else []
    return " and ".join([*low, *high]) or "-"


def _unit(bar: Bar) -> str:
    return f" {bar.unit}" if bar.unit else ""
