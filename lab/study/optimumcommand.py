"""Carry out ``kohort optimum``: solve small OASiS instances exactly and print the optimum beside OASiS's utility."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lab.study import files, show
from lab.study.consoles import out
from lab.study.studyerrors import StudyError


@dataclass(frozen=True, slots=True)
class OptimumOptions:
    """The command's options.

    ``servers`` is the number of servers for workers, and there are as many for ps. ``slots`` is the number of time
    slots. ``seconds`` is the solver's time limit for one instance.
    """

    jobs: int
    servers: int
    slots: int
    seconds: float
    seeds: range


@dataclass(frozen=True, slots=True)
class _Row:
    """The outcome of one instance.

    ``best`` is the utility of the best known schedule (the solver's or OASiS's own); no schedule exceeds ``bound``.
    """

    seed: int
    best: float
    bound: float
    proved: bool
    oasis: float
    variables: int

    def to_dict(self) -> dict[str, int | float | bool | None]:
        """Return the row for JSON; ``bound`` is None if the solver found none in its time."""
        bound = self.bound if math.isfinite(self.bound) else None
        return {
            "seed": self.seed, "optimum": self.best, "bound": bound, "proved": self.proved, "oasis": self.oasis,
            "variables": self.variables,
        }  # fmt: skip


def run(asked: OptimumOptions, target: files.ReportTarget) -> None:
    """Solve each seed's instance exactly, run OASiS on it, and print the utility of both."""
    rows = [_row(asked, seed) for seed in asked.seeds]
    target.write([row.to_dict() for row in rows])
    if not target.people:
        return
    names = ("SEED", "OPTIMUM", "BOUND", "PROVED", "OASIS", "RATIO", "VARIABLES")
    show.table(out(), names, [_cells(row) for row in rows], 7)
    if (earned := sum(row.oasis for row in rows)) > 0:
        ratio = sum(row.best for row in rows) / earned
        unproved = sum(1 for row in rows if not row.proved)
        least = (
            f"; this is a lower bound, as {unproved} of {len(rows)} are not proved: give more --seconds"
            if unproved
            else ""
        )
        out().print(f"optimum over OASiS, sums: {ratio:.3f}{least}")


def _cells(row: _Row) -> tuple[str, ...]:
    ratio = f"{row.best / row.oasis:.3f}" if row.oasis else "-"
    return (
        str(row.seed), f"{row.best:.2f}", f"{row.bound:.2f}", "yes" if row.proved else "no", f"{row.oasis:.2f}", ratio,
        str(row.variables),
    )  # fmt: skip


def _row(asked: OptimumOptions, seed: int) -> _Row:
    from lab.papers.oasis_jobs import SLOT_SECONDS, tiny, trace
    from lab.papers.oasis_world import oasis
    from lab.papers.oasis_world import run as earn
    from lab.sim.optimum import SolverLimits, TooLargeError, optimum

    drawn = trace(tiny(asked.jobs, asked.servers, asked.slots), seed)
    try:
        found = optimum(drawn, SLOT_SECONDS, asked.slots, SolverLimits(seconds=asked.seconds))
    except TooLargeError as error:
        raise StudyError(str(error)) from None
    ours = earn(drawn, oasis(asked.slots), asked.slots).utility
    return _Row(seed, max(found.utility, ours), found.bound, found.proved, ours, found.variables)
