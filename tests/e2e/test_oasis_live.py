"""OASiS on the real control plane: counts follow the schedule, refusals say why, a crash changes nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort
from tests.e2e.gangs import crash, fresh_kohort, job_view, own_namespace, pods, reason, until
from tests.e2e.tfjobs import TFJOBS, TFJob

Json = dict[str, Any]
SLOT = 20
IN_TIME = 5.0  # seconds after a slot's start
SETTINGS = {
    "policy": "oasis",
    "parameters": {"slot_seconds": float(SLOT), "horizon": 20},
    "release": {"backoff_initial_seconds": 1},
}
MEMORY = "kohort.dev/memory"


@pytest.fixture(scope="module")
def plane(live_plane: ControlPlane) -> Iterator[ControlPlane]:
    """One node, which a ps and four workers fill."""
    for name in ("node-1", "node-2"):
        live_plane.kubectl("cordon", name)
    yield live_plane
    for name in ("node-1", "node-2"):
        live_plane.kubectl("uncordon", name)


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    with fresh_kohort(plane, SETTINGS, "oasis") as started:
        yield started


@pytest.fixture
def space(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    with own_namespace(plane, request.node.name) as name:
        yield name


def submit(plane: ControlPlane, job: TFJob, worker_slots: int, value: float = 100.0) -> TFJob:
    """A job of so many worker-slots, and what it is worth to finish it."""
    curve = f"{{value: {value:.9f}, steepness: 0.1, target: 10}}"
    training = f"{{chunks: {worker_slots}, secondsPerBatch: {SLOT}, utility: {curve}}}"
    manifest = job.manifest()
    manifest["metadata"]["annotations"]["kohort.dev/training"] = training
    plane.api.create(TFJOBS.format(namespace=job.namespace), manifest)
    return job


def text(plane: ControlPlane, job: TFJob) -> str:
    notes = plane.api.get(job.path)["metadata"].get("annotations") or {}
    return str(notes.get(MEMORY, ""))


def schedule(plane: ControlPlane, job: TFJob) -> dict[int, int]:
    """Workers by slot, as the job's object has them; empty while nothing was decided about it."""
    part = json.loads(text(plane, job) or "{}").get("oasis", {})
    found = {}
    for first, times, layout in part["plan"][3] if "plan" in part else ():
        for slot in range(first, first + times):
            found[slot] = sum(count for role, _, count in layout if role == "worker")
    return found


def decided(plane: ControlPlane, job: TFJob) -> dict[int, int]:
    until(lambda: schedule(plane, job), f"{job.name} planned", 10)
    return schedule(plane, job)


def workers(plane: ControlPlane, job: TFJob) -> int:
    """Workers that run now."""
    running = (pod for pod in pods(plane, job.namespace, job.name) if pod["status"].get("phase") == "Running")
    return sum(1 for pod in running if pod["metadata"]["labels"]["training.kubeflow.org/replica-type"] == "worker")


def sleep_until(slot: int) -> None:
    time.sleep(max(0.0, slot * SLOT - time.time()))


def as_planned(plane: ControlPlane, kohort: Kohort, planned: dict[TFJob, dict[int, int]], slot: int) -> float:
    """Wait for the slot, then for the counts of all jobs; the seconds that they took."""
    sleep_until(slot)
    wanted = {job.name: shifts.get(slot, 0) for job, shifts in planned.items()}
    began = time.monotonic()
    while (seen := {job.name: workers(plane, job) for job in planned}) != wanted:
        told = {job.name: (view := job_view(kohort, job))["state"] + str(view["waits"]) for job in planned}
        assert time.monotonic() - began < IN_TIME, f"slot {slot}: {seen} and not {wanted} after {IN_TIME} s; {told}"
        time.sleep(0.1)
    return time.monotonic() - began


def why(kohort: Kohort, job: TFJob) -> str:
    return str(job_view(kohort, job)["waits"]["detail"])


@pytest.mark.timeout(170, func_only=True)
def test_counts_follow_the_schedule_also_through_pauses_and_crashes(
    plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    """A schedule with a hole: the first job makes place for the last one in the first slot, and another has the second.

    A slot's counts must be true within five seconds of its beginning, and they stay so when both processes are killed
    in the middle of one; what the objects hold is the same, letter by letter.
    """
    if time.time() % SLOT > 0.5 * SLOT:
        sleep_until(int(time.time() // SLOT) + 1)  # so that all of them come within one slot
    start = int(time.time() // SLOT)
    time.sleep(max(0.0, start * SLOT + 1.5 - time.time()))
    job = partial(TFJob, space, workers=4, least=1, most=4, worker_cpu="2", ps_cpu="2")
    first = submit(plane, job("first"), 4)
    assert decided(plane, first) == {start + 1: 4}
    second = submit(plane, job("second", run_seconds=SLOT - 3), 4)
    assert decided(plane, second) == {start + 2: 4}
    plane.api.delete(first.path)
    until(lambda: not pods(plane, space, "first"), "gone", 10)
    third = submit(plane, job("third"), 10)
    assert decided(plane, third) == {start + 1: 4, start + 3: 4, start + 4: 2}
    cheap = submit(plane, job("cheap"), 4, value=1e-9)
    until(lambda: reason(kohort, cheap) == "JobRejected", "refused", 10)
    refused = why(kohort, cheap)
    assert all(word in refused for word in ("payoff -", "price", "cheapest slot is")), refused
    assert workers(plane, third) == 0

    planned = {job: schedule(plane, job) for job in (second, third)}
    took = {start + 1: as_planned(plane, kohort, planned, start + 1)}
    time.sleep(1)
    before = {job.name: text(plane, job) for job in (second, third, cheap)}
    crash(kohort)
    took[start + 2] = 0.0
    assert {job.name: text(plane, job) for job in (second, third, cheap)} == before
    assert reason(kohort, cheap) == "JobRejected"
    assert why(kohort, cheap) == refused
    for slot in range(start + 2, start + 5):
        took[slot] = as_planned(plane, kohort, planned, slot)
    print({slot - start: round(seconds, 1) for slot, seconds in took.items()})
