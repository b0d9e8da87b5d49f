"""Every policy with mixed jobs on the real control plane: all end or are told why not, and it replays."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from extender.study.replay import again
from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort
from tests.e2e.gangs import fresh_kohort, own_namespace, until
from tests.e2e.observer import Observer
from tests.e2e.scenario import Arrival, arrivals, ended

Json = dict[str, Any]
WINDOW = 8.0
POLICIES: dict[str, Json] = {
    "kod2": {"policy": "kod2", "kod2": {"cooldown_seconds": 2}},
    "drs": {"policy": "drs", "parameters": {"cooldown": 2.0}},
    "dragon": {"policy": "dragon", "parameters": {"urgent_threshold": 5.0, "idle_threshold": 2.0}},
    "specon": {"policy": "specon", "parameters": {"interval": 3.0}},
    "kod2+specon": {"policy": "kod2+specon", "kod2": {"cooldown_seconds": 2}},
    # A pause starts these pods anew, and none states its training: each must be done within the slot that it is given.
    "oasis": {"policy": "oasis", "parameters": {"horizon": 30, "grace": 0.2}},
}
HOPELESS = {"GangExceedsCluster", "JobRejected"}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.timeout(170, func_only=True)
def test_every_job_ends_or_is_told_why_not(live_plane: ControlPlane, policy: str) -> None:
    play(live_plane, policy, arrivals(7, seed=1, seconds=5.0), gap=0.5, limit=120.0)


@pytest.mark.soak
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.timeout(900, func_only=True)
def test_twenty_jobs_end_or_are_told_why_not(live_plane: ControlPlane, policy: str) -> None:
    play(live_plane, policy, arrivals(21, seed=2, seconds=20.0), gap=8.0, limit=600.0)


def settings_of(policy: str, seconds: float, folder: Path) -> Json:
    """OASiS's slots are twice as long as a job runs."""
    own = POLICIES[policy]
    if policy == "oasis":
        own = own | {"parameters": own["parameters"] | {"slot_seconds": 2 * seconds}}
    return own | {"journal": {"folder": str(folder)}, "release": {"backoff_initial_seconds": 1}}


def play(plane: ControlPlane, policy: str, coming: Iterable[Arrival], gap: float, limit: float) -> None:
    """Let the jobs come, ``gap`` seconds apart, wait for their ends, and hold what was seen to the rules."""
    jobs = list(coming)
    folder = plane.workdir / f"journal-{policy}-{len(jobs)}"
    settings = settings_of(policy, jobs[0].seconds, folder)
    with own_namespace(plane, f"all-{policy}-{len(jobs)}") as space, Observer(plane, space) as observer:
        with fresh_kohort(plane, settings, f"all-{policy}") as kohort:
            began = time.monotonic()
            for job in jobs:
                plane.api.create(job.path(space), job.manifest(space))
                time.sleep(gap)
            for job in jobs:
                until(lambda job=job: is_over(plane, kohort, space, job), f"{job.name} at its end", limit)  # type: ignore[misc]
            took = time.monotonic() - began
            moved = {entry["job"]["name"] for entry in decided(kohort, "Migrate", "Released") if entry["job"]}
        failed = {job.name: how for job in jobs if (how := ended(plane, space, job)) == "Failed"}
        assert failed == {}
        for job in jobs:
            hold_to_the_rules(plane, observer, space, job, untouched=policy != "oasis" and job.name not in moved)
    replays_as_recorded(folder)
    print(f"{policy}: {len(jobs)} jobs in {took:.0f} s")


def is_over(plane: ControlPlane, kohort: Kohort, space: str, job: Arrival) -> bool:
    if not job.impossible:
        return bool(ended(plane, space, job))
    return why(kohort, space, job) in HOPELESS


def why(kohort: Kohort, space: str, job: Arrival) -> str:
    found = [view for view in kohort.get("/v1/jobs")["jobs"] if (view["namespace"], view["name"]) == (space, job.name)]
    return str((found[0]["waits"] or {}).get("reason", "")) if found else ""


def decided(kohort: Kohort, *actions: str) -> list[Json]:
    return [entry for entry in kohort.get("/v1/decisions")["decisions"] if entry["action"] in actions]


def hold_to_the_rules(plane: ControlPlane, observer: Observer, space: str, job: Arrival, *, untouched: bool) -> None:
    """Whole within the window, within its bounds, its rigid member where it was and as many as it asked for."""
    if job.kind == "Job":
        return  # its pods carry no label of the training operator
    assert observer.partial_seconds(job.name, job.members) <= WINDOW + 2, job.name
    assert observer.most_bound(job.name) <= job.most, job.name
    if job.kind == "TFJob":
        spec = plane.api.get(f"{job.path(space)}/{job.name}")["spec"]["tfReplicaSpecs"]
        assert spec["PS"]["replicas"] == 1
        if untouched:
            places = {s.uid for s in observer.sightings if (s.job, s.role) == (job.name, "ps") and s.bound}
            assert len(places) == (0 if job.impossible else 1), job.name


def replays_as_recorded(folder: Path) -> None:
    files = sorted(folder.glob("journal-*.jsonl"))
    replayed = [again(file) for file in files]
    assert sum(found.decisions for found in replayed) > 0
    assert [found.departures for found in replayed] == [()] * len(files)
