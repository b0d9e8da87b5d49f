"""``python -m tests.simulation.catching``: the seeds that each seeded defect takes, as rows for docs/reliability.md."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.simulation.many import run_seeds
from tests.simulation.mutants import MUTANTS

MOST_SEEDS: Final = 500  # within which a seeded defect must be caught
LONGEST_TEXT: Final = 110


@dataclass(frozen=True, slots=True)
class Caught:
    """What came of a defect. seeds: up to the first that failed, 0 where none of them did; by: what was violated."""

    mutant: str
    seeds: int
    by: str

    @property
    def row(self) -> str:
        """A row of the table; the name of what was violated, and the rest of it in short."""
        told = self.by if len(self.by) <= LONGEST_TEXT else f"{self.by[:LONGEST_TEXT].rsplit(' ', 1)[0]} ..."
        taken = str(self.seeds) if self.seeds else f"not within {MOST_SEEDS}"
        return f"| `{self.mutant}` | {stands_for(self.mutant)} | {taken} | {told.replace('|', '/')} |"


def stands_for(mutant: str) -> str:
    """What the defect is, and from whose tracker it is known."""
    return " ".join((MUTANTS[mutant].__doc__ or "").split())


def catch(mutant: str, processes: int = 0) -> Caught:
    """Play seed after seed with the defect until one fails."""
    with closing(run_seeds(range(1, MOST_SEEDS + 1), processes, mutant)) as reports:
        for taken, report in enumerate(reports, 1):
            if report.violations:
                return Caught(mutant, taken, report.violations[0])
    return Caught(mutant, 0, "")


def main() -> int:
    """Catch those that are named, or all; 1 where one of them was not caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.catching", description=__doc__)
    parser.add_argument("--mutant", action="append", choices=list(MUTANTS), help="only this one; may be repeated")
    parser.add_argument("--jobs", type=int, default=0, help="processes; 0: one per core")
    parser.add_argument("--state", type=Path, help="file for those that are done: the next call goes on from there")
    given = parser.parse_args()
    done = _remembered(given.state) if given.state else {}
    found = []
    for mutant in given.mutant or MUTANTS:
        if mutant not in done:
            done[mutant] = catch(mutant, given.jobs)
            if given.state:
                with given.state.open("a") as out:
                    out.write(json.dumps(asdict(done[mutant])) + "\n")
        found.append(done[mutant])
        print(found[-1].row, flush=True)
    return 0 if all(one.seeds for one in found) else 1


def _remembered(file: Path) -> dict[str, Caught]:
    lines = file.read_text().splitlines() if file.exists() else []
    return {one["mutant"]: Caught(**one) for one in map(json.loads, lines)}


if __name__ == "__main__":
    sys.exit(main())
