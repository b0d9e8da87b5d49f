"""``python -m tests.simulation.digests``: compare the decisions of seeds and experiments with digests.json.

Without an option, it runs the 600 seeds and prints which one differs first, and between which of its decisions.
``--write`` rewrites the file, for a change that is meant to decide differently. ``--show SEED`` prints that seed's
decisions, so that two commits can be compared line by line.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lab.study import papers
from tests.simulation.decisions import first_difference, marks
from tests.simulation.run import SeedReport, Simulation, play
from tests.simulation.scenario import drawn

FILE: Final = Path(__file__).with_name("digests.json")
# There are 100 seeds of each policy, because a seed's policy is determined by the seed modulo 6.
SEEDS: Final = range(1, 601)
PAPER_SEEDS: Final = range(1000, 1003)
UPDATE: Final = "python -m tests.simulation.digests --write"
Marks = tuple[str, ...]


def decisions_of(seed: int) -> list[str]:
    """Run the seed; return a line for each decision."""
    made = list[Simulation]()

    def make() -> Simulation:
        made.append(Simulation(drawn(seed)))
        return made[0]

    play(make)
    return made[0].decisions.lines


def numbers_of(experiment: str, seed: int) -> list[str]:
    """Run one seed of a paper's experiment; return its numbers to nine digits, ordered by name."""
    row: Mapping[str, Any] = papers.measure(experiment, "", seed)
    return [f"{float(row[name]):.9g}" for name in sorted(row)]


def lines_of(name: str) -> list[str]:
    """Return the lines of decisions from which the digest of that name is computed (``seed 7``, ``paper drs-late
    1000``).
    """
    kind, *rest = name.split()
    return decisions_of(int(rest[0])) if kind == "seed" else numbers_of(rest[0], int(rest[1]))


def names_of_seeds(seeds: Sequence[int] = SEEDS) -> list[str]:
    """Return the names of these seeds' digests."""
    return [f"seed {seed}" for seed in seeds]


def names_of_papers(experiments: Sequence[str] = ()) -> list[str]:
    """Return the names of the digests of these experiments; by default of all that need no data from elsewhere."""
    every = [name for name, one in papers.experiments().items() if not one.data]
    return [f"paper {name} {seed}" for name in experiments or every for seed in PAPER_SEEDS]


def written(file: Path = FILE) -> dict[str, Marks]:
    """Return the digests of the file by name."""
    return {name: tuple(text.split()) for name, text in json.loads(file.read_text()).items()}


def write(found: Mapping[str, Marks], file: Path = FILE) -> None:
    """Write the digests, one per line."""
    file.write_text(json.dumps({name: " ".join(one) for name, one in found.items()}, indent=0) + "\n")


def difference(name: str, lines: Sequence[str], before: Marks) -> str:
    """Return a sentence on how the lines of a run differ from the digest ``before``, or "" if they do not."""
    there = first_difference(marks(lines), before)
    if there is None:
        return ""
    shown = "\n".join(f"  {at + 1}: {lines[at]}" for at in there if at < len(lines))
    return f"{name} differs first among its lines {there[0] + 1} to {there[-1] + 1}, which are now\n{shown}"


def differences(names: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each named digest that differs from the file or is missing there."""
    known = written()
    for name in names:
        if name not in known:
            yield f"{name} is not in {FILE.name}"
        elif found := difference(name, lines_of(name), known[name]):
            yield found


def difference_of_run(report: SeedReport, known: Mapping[str, Marks]) -> str:
    """Return a sentence on how the decisions of a finished run differ from those known, or "" if they do not.

    A seed that is not known does not differ. A seed that differs is played again, so that its decisions can be shown.
    """
    name = f"seed {report.seed}"
    if report.marks == known.get(name, report.marks):
        return ""
    return difference(name, decisions_of(report.seed), known[name]) or f"{name} decides otherwise in each run"


def measured(names: Sequence[str], state: Path | None) -> dict[str, Marks]:
    """Compute the digests of these names; ``state`` is a file from which an interrupted call continues."""
    found = _remembered(state)
    for name in names:
        if name not in found:
            found[name] = marks(lines_of(name))
            if state is not None:
                with state.open("a") as out:
                    out.write(json.dumps([name, found[name]]) + "\n")
    return {name: found[name] for name in names}


def _remembered(state: Path | None) -> dict[str, Marks]:
    if state is None or not state.exists():
        return {}
    # Only whole lines are read, because a killed run may have left the last line incomplete.
    whole = state.read_text().rpartition("\n")[0].splitlines()
    state.write_text("".join(f"{line}\n" for line in whole))
    return {name: tuple(one) for name, one in map(json.loads, whole)}


def main() -> int:
    """Compare, write or print as the command line asks; return 1 if something differs."""
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="python -m tests.simulation.digests", description=__doc__)
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="how many seeds; 0 for the papers alone")
    parser.add_argument("--papers", nargs="*", metavar="NAME", help="and these experiments; without a name all")
    parser.add_argument("--write", action="store_true", help="write what is found; digests of others stay")
    parser.add_argument("--state", type=Path, help="with --write: what is done; the next call goes on from there")
    parser.add_argument("--show", type=int, metavar="SEED", help="only print the decisions of this seed")
    given = parser.parse_args()
    if given.show is not None:
        print("\n".join(decisions_of(given.show)))
        return 0
    names = names_of_seeds(SEEDS[: given.seeds]) + ([] if given.papers is None else names_of_papers(given.papers))
    if given.write:
        write({**(written() if FILE.exists() else {}), **measured(names, given.state)})
        return 0
    found = next(differences(names), "")
    print(found or f"{len(names)} digests are those of {FILE.name}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
