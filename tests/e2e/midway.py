"""Gangs held between plan and bind on three nodes of ten cores, while parts are killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort
from tests.e2e.asking import at_barrier, nodes_of
from tests.e2e.gangs import (
    allow_holds,
    forget_lease,
    fresh_kohort,
    is_leading,
    revive_operator,
    submit,
    window,
)
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import until

WINDOW = 8.0
CORES = 10
# This CEL expression selects the pods whose bindings the API server refuses.
LATE = "name.endsWith('worker-2') || name.endsWith('worker-3')"


@contextmanager
def three_nodes(folder: Path) -> Iterator[ControlPlane]:
    """Yield three empty nodes, with the default scheduler beside Kohort's."""
    with ControlPlane.start(workdir=folder, controller_manager=True) as started:
        allow_holds(started)
        started.start_scheduler()
        yield started


@contextmanager
def patient_kohort(plane: ControlPlane, name: str) -> Iterator[Kohort]:
    """Yield a Kohort whose barrier holds bind calls for a window of eight seconds."""
    settings = window(WINDOW) | {
        "kod2": {"cooldown_seconds": 1},
        "release": {"backoff_initial_seconds": 2, "backoff_max_seconds": 8},
    }
    with fresh_kohort(plane, settings, name) as kohort:
        yield kohort


def revive(plane: ControlPlane, kohort: Kohort) -> None:
    """Restart or continue every process that a test left dead or suspended, and wait until Kohort leads."""
    for process in plane.processes.values():
        if process.alive:
            process.resume()
    for process in (kohort.extender, kohort.controller):
        if not process.alive:
            process.restart()
    if not kohort.scheduler.alive:
        forget_lease(plane)
        kohort.scheduler.restart()
    revive_operator(plane)
    kohort.wait_ready()
    until(lambda: is_leading(kohort), "leading")


def reborn(kohort: Kohort) -> None:
    """Kill the extender and start it again."""
    kohort.extender.crash()
    kohort.extender.restart()
    kohort.wait_ready()


def is_bound(plane: ControlPlane, job: TFJob) -> bool:
    """Tell whether the job is bound whole."""
    return len(nodes_of(plane, job.namespace, job.name)) == job.workers + job.ps


def bound_whole(plane: ControlPlane, job: TFJob) -> None:
    """Wait until the job is bound whole."""
    took = until(lambda: is_bound(plane, job), f"{job.name} bound whole")
    print(f"{job.namespace}/{job.name}: whole {took:.1f} s later")


def at_the_barrier(plane: ControlPlane, kohort: Kohort, space: str, name: str = "gang", workers: int = 4) -> TFJob:
    """Return a gang whose workers are all held in bind, because its ps may not start yet."""
    job = submit(plane, TFJob(space, name, workers=workers), hold="PS")
    until(lambda: at_barrier(kohort, job) == workers, "every worker at the barrier")
    return job


def half_bound(plane: ControlPlane, space: str, stop_seconds: float = 0) -> TFJob:
    """Return a gang of five with three bound members; the other bindings are refused."""
    job = submit(plane, TFJob(space, "gang", workers=4), stop_seconds=stop_seconds)
    until(lambda: len(nodes_of(plane, space)) == 3, "three of five bound")
    return job
