"""``kohort optimum``."""

from __future__ import annotations

from dataclasses import dataclass

from extender.study import files, show
from extender.study.consoles import out
from extender.study.errors import StudyError

Row = dict[str, int | float | bool]


@dataclass(frozen=True, slots=True)
class Asked:
    """The options. ``servers``: for workers, and as many for ps; ``seconds``: of solving, for one instance."""

    jobs: int
    servers: int
    slots: int
    seconds: float
    seeds: range


def run(asked: Asked, told: files.Told) -> None:
    """Solve, run, show."""
    rows = [_row(asked, seed) for seed in asked.seeds]
    told.write(rows)
    if not told.people:
        return
    names = ("SEED", "OPTIMUM", "BOUND", "PROVED", "OASIS", "RATIO", "VARIABLES")
    show.table(out(), names, [_cells(row) for row in rows], 7)
    earned = sum(row["oasis"] for row in rows)
    if earned > 0:
        out().print(f"optimum over OASiS, sums: {sum(row['optimum'] for row in rows) / earned:.3f}")


def _cells(row: Row) -> tuple[str, ...]:
    ratio = f"{row['optimum'] / row['oasis']:.3f}" if row["oasis"] else "-"
    return (
        str(row["seed"]), f"{row['optimum']:.2f}", f"{row['bound']:.2f}", "yes" if row["proved"] else "no",
        f"{row['oasis']:.2f}", ratio, str(row["variables"]),
    )  # fmt: skip


def _row(asked: Asked, seed: int) -> Row:
    from policy.sim.optimum import TooLargeError, optimum
    from policy.sim.papers.oasis_jobs import SLOT_SECONDS, tiny, trace
    from policy.sim.papers.oasis_world import oasis
    from policy.sim.papers.oasis_world import run as earn

    drawn = trace(tiny(asked.jobs, asked.servers, asked.slots), seed)
    try:
        best = optimum(drawn, SLOT_SECONDS, asked.slots, limit=asked.seconds)
    except TooLargeError as error:
        raise StudyError(str(error)) from None
    ours = earn(drawn, oasis(asked.slots), asked.slots).utility
    return {
        "seed": seed, "optimum": best.utility, "bound": best.bound, "proved": best.proved, "oasis": ours,
        "variables": best.variables,
    }  # fmt: skip
