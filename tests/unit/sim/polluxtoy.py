"""A small application for tests of the world of the Pollux artifact, whose numbers can be computed by hand."""

from __future__ import annotations

from functools import cache
from itertools import product

from lab.sim.pollux.profiles import Profile, profile
from lab.sim.pollux.workload import PolluxWorkload, workload
from lab.sim.traces.reading import Table, numbered

UNEVEN = (1, 3, 2)  # This placement is slower by a second than the other orders of the same numbers.
EPOCHS = {
    20: [(100.0, 100, 0.5, 1.0, 1.0), (200.0, 200, 0.6, 1.0, 3.0)],
    40: [(101.0, 60, 0.4, 1.0, 1.0), (199.0, 110, 0.7, 1.0, 3.0)],
}


@cache
def toy() -> Profile:
    """Return an application with two epochs, batch sizes of 20 to 40, and 10 to 20 samples in a pass.

    A step takes a second for ten samples, and half a second of exchange for every node beyond the first.
    """
    placements = [
        {"placement": "".join(map(str, sizes)), "local_bsz": local, "step_time": _step(sizes, local), "sync_time": sync}
        for nodes in range(1, 5)
        for sizes in product((1, 2, 3, 4), repeat=nodes)
        for local in (10, 20)
        for sync in [0.5 * (nodes - 1)]
    ]
    columns = ("progress", "iteration", "metric", "grad_sqr", "grad_var")
    trainings = {
        batch: numbered([dict(zip(columns, row, strict=True)) for row in rows]) for batch, rows in EPOCHS.items()
    }
    return profile("toy", numbered(placements), WIDE, trainings)


def _step(sizes: tuple[int, ...], local: int) -> float:
    slow = 1.0 if sizes in {UNEVEN[at:] + UNEVEN[:at] for at in range(3)} else 0.0
    return local / 10 + 0.5 * (len(sizes) - 1) + slow


WIDE: Table = numbered(
    [
        {"application": "toy", "num_nodes": 5, "num_replicas": 8, "local_bsz": 10, "step_time": 7.0, "sync_time": 1.0},
        {"application": "other", "num_nodes": 5, "num_replicas": 8, "local_bsz": 10, "step_time": 9, "sync_time": 1.0},
    ]
)


def toys(*jobs: tuple[float, int, int], elastic: bool = True) -> PolluxWorkload:
    """Return a workload of the small application; a job is (seconds of its arrival, GPUs, batch size)."""
    rows = [
        {"name": f"toy-{at}", "time": time, "application": "toy", "num_replicas": gpus, "batch_size": batch}
        for at, (time, gpus, batch) in enumerate(jobs)
    ]
    return workload(numbered(rows), {"toy": toy()}, elastic=elastic)
