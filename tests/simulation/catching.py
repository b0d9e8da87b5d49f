"""Count how many seeds run until each seeded defect (a fault put into the code on purpose) is caught.

The command is ``python -m tests.simulation.catching``, and its results are in docs/reliability/defects.md. With
``--gate``, it tells which defects the kept scenarios and the seeds of `make test` catch.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.simulation.kept import names, read
from tests.simulation.many import GATE_SEEDS, run_seeds
from tests.simulation.mutants import MUTANTS

MOST_SEEDS: Final = 500  # Each seeded defect must be caught within this many seeds.
LEAST_IN_GATE: Final = 40  # `make test` must catch at least this many of the defects.
LONGEST_TEXT: Final = 110


@dataclass(frozen=True, slots=True)
class Caught:
    """The outcome for one defect: how many seeds were run until one failed (0: none failed), and what was violated."""

    mutant: str
    seeds: int
    by: str

    @property
    def row(self) -> str:
        """Return the outcome as a row of the Markdown table, with the violated rule and the beginning of its text."""
        caught_by = self.by if len(self.by) <= LONGEST_TEXT else f"{self.by[:LONGEST_TEXT].rsplit(' ', 1)[0]} ..."
        taken = str(self.seeds) if self.seeds else f"not within {MOST_SEEDS}"
        return f"| `{self.mutant}` | {stands_for(self.mutant)} | {taken} | {caught_by.replace('|', '/')} |"


def stands_for(mutant: str) -> str:
    """Return the docstring of the defect's function, which says what the defect is and in whose issue tracker it was
    found.
    """
    return " ".join((MUTANTS[mutant].__doc__ or "").split())


def catch(
    mutant: str, processes: int = 0, passed: int = 0, note: Callable[[int], None] = lambda seed: None,
    most: int = MOST_SEEDS,
) -> Caught:  # fmt: skip
    """Run seed after seed with the defect until one fails.

    The first ``passed`` seeds are skipped, because they did not fail before; ``note`` is called with each seed that
    passes.
    """
    with closing(run_seeds(range(passed + 1, most + 1), processes, mutant)) as reports:
        for report in reports:
            if report.violations:
                return Caught(mutant, report.seed, report.violations[0])
            note(report.seed)
    return Caught(mutant, 0, "")


def in_gate(mutant: str, processes: int = 0) -> str:
    """Return what catches the defect in `make test`: its kept scenario, or else a seed; "" if nothing does."""
    for name in names():
        scenario = read(name)
        if scenario.defect == mutant and scenario.play().violations:
            return f"scenario {name}"
    found = catch(mutant, processes, most=GATE_SEEDS[-1])
    return f"seed {found.seeds}" if found.seeds else ""


def judge_gate(mutants: Sequence[str], processes: int) -> int:
    """Print for each defect what catches it in `make test`; return 1 if too few are caught."""
    caught = 0
    for mutant in mutants:
        by = in_gate(mutant, processes)
        caught += bool(by)
        print(f"{mutant:40} {by or 'NOT CAUGHT'}", flush=True)
    print(f"{caught} of {len(mutants)} seeded defects are caught by what `make test` plays")
    return 0 if caught >= min(LEAST_IN_GATE, len(mutants)) else 1


class CatchingState:
    """A file of outcomes, from which an interrupted series of runs continues.

    ``caught`` has the outcome by defect, and ``passed`` the number of seeds by defect that did not fail.
    """

    def __init__(self, file: Path | None) -> None:
        self.caught: dict[str, Caught] = {}
        self.passed: dict[str, int] = {}
        self._file = file
        for line in file.read_text().splitlines() if file is not None and file.exists() else ():
            one = json.loads(line)
            if "passed" in one:
                self.passed[one["mutant"]] = one["passed"]
            else:
                self.caught[one["mutant"]] = Caught(**one)

    def catch(self, mutant: str, processes: int) -> Caught:
        """Return the outcome for the defect, from the file or from a new run."""
        if mutant not in self.caught:
            first = self.passed.get(mutant, 0)
            found = catch(mutant, processes, first, lambda seed: self._write({"mutant": mutant, "passed": seed}))
            self.caught[mutant] = found
            self._write(asdict(found))
        return self.caught[mutant]

    def _write(self, line: dict[str, object]) -> None:
        if self._file is not None:
            with self._file.open("a") as out:
                out.write(json.dumps(line) + "\n")


def main() -> int:
    """Run the named defects, or all; return 1 if one of them was not caught."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="python -m tests.simulation.catching", description=__doc__
    )
    parser.add_argument("--mutant", action="append", choices=list(MUTANTS), help="only this one; may be repeated")
    parser.add_argument("--jobs", type=int, default=0, help="processes; 0: one per core")
    parser.add_argument("--state", type=Path, help="file for those that are done: the next call goes on from there")
    parser.add_argument("--gate", action="store_true", help="only by what `make test` plays: scenarios, then its seeds")
    given = parser.parse_args()
    if given.gate:
        return judge_gate(given.mutant or list(MUTANTS), given.jobs)
    state, found = CatchingState(given.state), list[Caught]()
    for mutant in given.mutant or MUTANTS:
        found.append(state.catch(mutant, given.jobs))
        print(found[-1].row, flush=True)
    return 0 if all(one.seeds for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
