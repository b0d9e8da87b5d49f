"""KOD2's ten-jobs experiment over many seeds: Kohort against the default scheduler, in the simulator.

    python -m benchmarks.kod2 --seeds 100

D is how long a job may hold pods without computing before it is ended; the paper does not say, and the answer decides
the comparison. A job that was ended counts with that time, so lost jobs stand beside every mean.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from policy.sim.report import Result, reduction
from policy.sim.run import pod_by_pod, simulate
from policy.sim.traces import kod2
from policy.systems.baselines import Retry
from policy.systems.kod2 import Kod2

CASES = ((Retry.RANDOM, 600.0), (Retry.RANDOM, 1800.0), (Retry.RANDOM, 3600.0), (Retry.FIFO, 1800.0))


@dataclass(frozen=True, slots=True)
class Row:
    """One baseline: its mean JCT, by how much Kohort cuts it (shares), jobs lost of ten, cross-node ps-worker pairs."""

    retry: str
    patience_seconds: float
    mean_jct_minutes: float
    reduction_mean: float
    reduction_min: float
    reduction_max: float
    lost: float
    seeds_losing: int
    cross_pairs: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, print the table, and write it where asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kod2", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100, help="how many (default 100)")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the rows there")
    asked = parser.parse_args(arguments)
    if asked.seeds < 1:
        parser.error(f"--seeds: {asked.seeds} is not allowed; allowed: 1 or more")
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    ours = {seed: simulate(kod2(seed), Kod2()) for seed in track(seeds, "kod2", transient=True)}
    rows = [_row(ours, retry, patience) for retry, patience in CASES]
    _print(list(ours.values()), rows)
    if asked.json:
        kohort = [result.to_dict() for result in ours.values()]
        asked.json.write_text(json.dumps({"kod2": kohort, "baselines": [asdict(row) for row in rows]}, indent=2))


def _row(ours: dict[int, Result], retry: Retry, patience: float) -> Row:
    name = f"{retry.value}, D={patience:.0f} s"
    runs = {seed: pod_by_pod(kod2(seed), seed, retry, patience=patience) for seed in track(ours, name, transient=True)}
    cuts = [reduction(ours[seed], run) for seed, run in runs.items()]
    lost = [len(run.never_finished) for run in runs.values()]
    return Row(
        retry.value,
        patience,
        statistics.fmean(run.mean_jct_seconds for run in runs.values()) / 60,
        statistics.fmean(cuts),
        min(cuts),
        max(cuts),
        statistics.fmean(lost),
        sum(1 for count in lost if count),
        statistics.fmean(run.cross_pairs for run in runs.values()),
    )


def _print(ours: Sequence[Result], rows: Sequence[Row]) -> None:
    table = Table(title=f"Default scheduler, pod by pod, against Kohort (kod2), {len(ours)} seeds")
    for title in ("retry order", "D", "mean JCT", "cut by Kohort: mean", "min", "max", "lost of 10", "seeds losing"):
        table.add_column(title, justify="right")
    for row in rows:
        cuts = (f"{cut:.0%}" for cut in (row.reduction_mean, row.reduction_min, row.reduction_max))
        table.add_row(
            row.retry, f"{row.patience_seconds:.0f} s", f"{row.mean_jct_minutes:.1f} min", *cuts, f"{row.lost:.2f}",
            str(row.seeds_losing),
        )  # fmt: skip
    console = Console()
    console.print(table)
    jct = statistics.fmean(result.mean_jct_seconds for result in ours) / 60
    finished = min(result.finished for result in ours)
    used = statistics.fmean(result.utilisation for result in ours)
    console.print(f"Kohort: mean JCT {jct:.1f} min, utilisation {used:.2f}, at least {finished} of 10 finished.")


if __name__ == "__main__":
    main()
