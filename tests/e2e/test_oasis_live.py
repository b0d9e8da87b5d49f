"""Tests of OASiS on the real control plane: schedules are followed, rejections explained, crashes survived."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import httpx
import pytest

from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort
from tests.e2e.asking import job_view, pods, reason
from tests.e2e.gangs import crash, fresh_kohort
from tests.e2e.tfjobs import TFJOBS, TFJob
from tests.e2e.waiting import until

pytestmark = pytest.mark.alone  # time slots are slots of real time

Json = dict[str, Any]
SLOT = 20
IN_TIME = 5.0  # The planned workers must run within so many seconds after a time slot's start.
MEMORY = "kohort.dev/memory"
Counts = dict[int, tuple[int, int]]  # Counts map a time slot to the numbers of ps and workers.


@pytest.fixture(scope="module")
def plane(live_plane: ControlPlane) -> Iterator[ControlPlane]:
    """Yield the control plane with two of three nodes cordoned, so that a ps and four workers fill the cluster."""
    for name in ("node-1", "node-2"):
        live_plane.kubectl("cordon", name)
    yield live_plane
    for name in ("node-1", "node-2"):
        live_plane.kubectl("uncordon", name)


def settings(slot: int) -> Json:
    parameters = {"slot_seconds": float(slot), "horizon": 20}
    return {
        "policy": "oasis",
        "parameters": parameters,
        "release": {"backoff_initial_seconds": 1, "backoff_max_seconds": 4},
    }


def price_lines(kohort: Kohort) -> list[str]:
    """Return the lines of OASiS's prices from the extender's metrics."""
    text = httpx.get(f"{kohort.health}/metrics", timeout=60, trust_env=False).text
    return [line for line in text.splitlines() if line.startswith("kohort_price")]


def submit(
    plane: ControlPlane, job: TFJob, worker_slots: int, value: float = 100.0, slot: int = SLOT, more: str = ""
) -> TFJob:
    """Submit a job whose training takes ``worker_slots`` times one worker for one time slot, and return the job.

    ``value`` is the utility of finishing it, ``slot`` the length of a slot in seconds, ``more`` further fields.
    """
    curve = f"{{value: {value:.9f}, steepness: 0.1, target: 10}}"
    training = f"{{chunks: {worker_slots}, secondsPerBatch: {slot}, utility: {curve}{more}}}"
    manifest = job.manifest()
    manifest["metadata"]["annotations"]["kohort.dev/training"] = training
    plane.api.create(TFJOBS.format(namespace=job.namespace), manifest)
    return job


def text(plane: ControlPlane, job: TFJob) -> str:
    notes = plane.api.get(job.path)["metadata"].get("annotations") or {}
    return str(notes.get(MEMORY, ""))


def schedule(plane: ControlPlane, job: TFJob, of: str = "worker") -> dict[int, int]:
    """Return the number of members of a role in each time slot, from the schedule on the job's object.

    The result is empty while OASiS has made no schedule.
    """
    part = json.loads(text(plane, job) or "{}").get("oasis", {})
    found = {}
    for first, times, layout in part["plan"][3] if "plan" in part else ():
        for slot in range(first, first + times):
            found[slot] = sum(count for role, _, count in layout if role == of)
    return found


def decided(plane: ControlPlane, job: TFJob) -> dict[int, int]:
    until(lambda: schedule(plane, job), f"{job.name} planned")
    return schedule(plane, job)


def running(plane: ControlPlane, job: TFJob, role: str) -> list[Json]:
    """Return the running pods of that role."""
    found = (pod for pod in pods(plane, job.namespace, job.name) if pod["status"].get("phase") == "Running")
    return [pod for pod in found if pod["metadata"]["labels"]["training.kubeflow.org/replica-type"] == role]


def workers(plane: ControlPlane, job: TFJob) -> int:
    """Return the number of running workers."""
    return len(running(plane, job, "worker"))


def running_counts(plane: ControlPlane, job: TFJob) -> tuple[int, int]:
    """Return the numbers of running ps and workers."""
    return len(running(plane, job, "ps")), workers(plane, job)


def as_counted(plane: ControlPlane, planned: list[tuple[TFJob, Counts]], slot: int) -> bool:
    return all(running_counts(plane, job) == counts[slot] for job, counts in planned)


def has_failed(plane: ControlPlane, job: TFJob) -> bool:
    """Tell whether the operator has reported the job as failed or restarting."""
    return any(one["type"] in ("Failed", "Restarting") for one in plane.api.get(job.path)["status"]["conditions"])


def told_ps(plane: ControlPlane, job: TFJob) -> set[int]:
    """Return the numbers of ps that the running workers' TF_CONFIG has."""
    specs = (pod["spec"]["containers"][0]["env"] for pod in running(plane, job, "worker"))
    configs = (json.loads(one["value"]) for env in specs for one in env if one["name"] == "TF_CONFIG")
    return {len(config["cluster"]["ps"]) for config in configs}


def anew(plane: ControlPlane, planned: list[tuple[TFJob, Counts]], varies: TFJob, slot: int) -> bool:
    """Tell whether all jobs run the slot's numbers of ps and workers, and the workers of ``varies`` are new ones.

    Workers are new if their TF_CONFIG has the slot's number of ps.
    """
    ((_, counts),) = (one for one in planned if one[0] == varies)
    return as_counted(plane, planned, slot) and told_ps(plane, varies) == {counts[slot][0]}


def sleep_until(slot: int) -> None:
    time.sleep(max(0.0, slot * SLOT - time.time()))


def as_planned(plane: ControlPlane, kohort: Kohort, planned: dict[TFJob, dict[int, int]], slot: int) -> float:
    """Wait until the slot begins and then until all jobs run the planned workers; return the second wait in seconds."""
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


def test_counts_follow_the_schedule_also_through_pauses(plane: ControlPlane, space: str) -> None:
    """The third job is scheduled in slots 1, 3 and 4, because the second job has slot 2.

    In every slot, the planned numbers of workers must run within five seconds of its start.
    """
    with fresh_kohort(plane, settings(SLOT), "oasis") as kohort:
        if time.time() % SLOT > 0.5 * SLOT:
            sleep_until(int(time.time() // SLOT) + 1)  # All jobs must arrive within one time slot.
        start = int(time.time() // SLOT)
        time.sleep(max(0.0, start * SLOT + 1.5 - time.time()))
        job = partial(TFJob, space, workers=4, least=1, most=4, worker_cpu="2", ps_cpu="2")
        first = submit(plane, job("first"), 4)
        assert decided(plane, first) == {start + 1: 4}
        second = submit(plane, job("second", run_seconds=SLOT - 3), 4)
        assert decided(plane, second) == {start + 2: 4}
        plane.api.delete(first.path)
        until(lambda: not pods(plane, space, "first"), "gone")
        third = submit(plane, job("third"), 10)
        assert decided(plane, third) == {start + 1: 4, start + 3: 4, start + 4: 2}
        planned = {job: schedule(plane, job) for job in (second, third)}
        took = {slot: as_planned(plane, kohort, planned, slot) for slot in range(start + 1, start + 5)}
        print({slot - start: round(seconds, 1) for slot, seconds in took.items()})


def test_ps_follow_the_schedule_where_the_job_says_so_and_are_held_where_not(plane: ControlPlane, space: str) -> None:
    """Two jobs each have four workers in one time slot and one worker in another; a ps serves two workers.

    The first job allows other numbers of ps and asks for too many; it runs two ps and one ps. The second job keeps the
    two ps that it asks for. The operator reports no failure.
    """
    with fresh_kohort(plane, settings(SLOT), "oasis-ps") as kohort:
        if time.time() % SLOT > 0.4 * SLOT:
            sleep_until(int(time.time() // SLOT) + 1)
        start = int(time.time() // SLOT)
        time.sleep(max(0.0, start * SLOT + 1.5 - time.time()))
        job = partial(TFJob, space, workers=4, least=1, most=4, worker_cpu="500m")
        varies, holds = job("varies", ps=3, notes={"elastic-ps": "true"}), job("holds", ps=2)
        planned: list[tuple[TFJob, Counts]] = []
        for one in (varies, holds):
            submit(plane, one, 5, more=", workerGigabits: 1, psGigabits: 2")
            shifts = decided(plane, one)
            assert sorted(shifts.values()) == [1, 4]
            assert set(shifts) == {start + 1, start + 2}
            servers = schedule(plane, one, "ps")
            planned.append((one, {slot: (servers[slot], shifts[slot]) for slot in shifts}))
        asked, fixed = (counts for _, counts in planned)
        assert (set(asked.values()), set(fixed.values())) == ({(1, 1), (2, 4)}, {(2, 1), (2, 4)})
        kept: list[set[str]] = []
        # A change of the number of ps restarts the job (docs/decisions/0007), which takes longer than IN_TIME: the job
        # is suspended, and its operator deletes and recreates the pods. The numbers must be right before the slot ends.
        # After its last slot a job goes on unchanged, so there the test can wait longer.
        for slot, seconds in ((start + 1, SLOT - 2.0), (start + 2, 60.0)):
            sleep_until(slot)
            began = time.monotonic()
            wanted = f"ps and workers {asked[slot]} and {fixed[slot]}"
            until(partial(anew, plane, planned, varies, slot), f"{wanted} in slot {slot - start}, as told", seconds)
            print(f"{wanted} after {time.monotonic() - began:.1f} s")
            kept.append({pod["metadata"]["uid"] for pod in running(plane, holds, "ps")})
        assert kept[0] == kept[1]
        assert not any(has_failed(plane, one) for one, _ in planned)
        until(lambda: job_view(kohort, varies)["state"] == "running", "the job runs")


def test_schedules_refusals_and_prices_outlive_every_crash(plane: ControlPlane, space: str) -> None:
    """Extender and controller are killed right after each job arrives.

    A schedule or rejection that is written on a job's object stays exactly the same, and so do the prices.
    """
    length = next(seconds for seconds in range(600, 1600, 90) if 120 < time.time() % seconds < seconds - 240)
    with fresh_kohort(plane, settings(length), "oasis-crash") as kohort:
        jobs = [
            partial(TFJob, space, workers=4, least=1, most=4, worker_cpu="2", ps_cpu="2")(f"j{n}") for n in range(3)
        ]
        cheap = TFJob(space, "cheap", worker_cpu="2")
        held: dict[str, str] = {}
        for n, job in enumerate((*jobs, cheap)):
            submit(plane, job, 10, value=1e-9 if job is cheap else 100.0, slot=length)
            time.sleep(0.15 * n)
            written = {name: found for name in held if (found := text(plane, replace(job, name=name)))}
            crash(kohort)
            assert {name: text(plane, replace(job, name=name)) for name in held} == written == held
            until(partial(text, plane, job), f"{job.name} decided")
            held[job.name] = text(plane, job)
        until(lambda: reason(kohort, cheap) == "JobRejected", "refused")
        refused, prices = why(kohort, cheap), price_lines(kohort)
        assert all(word in refused for word in ("payoff -", "price", "its fewest workers cost least in time slot")), (
            refused
        )
        assert any(float(line.rsplit(" ", 1)[1]) > 0 for line in prices), prices
        crash(kohort)
        until(lambda: reason(kohort, cheap) == "JobRejected", "refused again")
        assert (why(kohort, cheap), price_lines(kohort)) == (refused, prices)
        assert {job.name: text(plane, job) for job in (*jobs, cheap)} == held
