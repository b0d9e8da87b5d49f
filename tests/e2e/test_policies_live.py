"""Tests of every policy with jobs of many kinds on the real control plane.

All jobs end or are refused with a reason, and the recorded decisions can be replayed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lab.study.replay import replay_journal
from tests.controlplane import ControlPlane
from tests.controlplane.definitions import COSCHEDULING, JOBSET, VOLCANO, definition, group_definition
from tests.controlplane.kohort import Kohort
from tests.controlplane.training import DEFINITIONS_PATH
from tests.e2e.chapters import RIVALS, SERVICES, Chapter, Moved, Taken
from tests.e2e.gangs import fresh_kohort, own_namespace
from tests.e2e.inventory import told_of_waiting
from tests.e2e.judging import Seen
from tests.e2e.observer import ClusterObserver
from tests.e2e.people import People
from tests.e2e.scenario import KINDS, Arrival, arrivals, slot_of
from tests.e2e.waiting import until

pytestmark = pytest.mark.full

Json = dict[str, Any]
INTERVAL = 3.0  # SpeCon looks for jobs to move every three seconds.
POLICIES: dict[str, Json] = {
    "kod2": {"policy": "kod2", "kod2": {"cooldown_seconds": 2}},
    "drs": {"policy": "drs", "parameters": {"cooldown": 2.0}},
    "dragon": {
        "policy": "dragon",
        "parameters": {"urgent_threshold": 5.0, "idle_threshold": 2.0},
        "tick_seconds": 1.0,
    },
    "specon": {"policy": "specon", "parameters": {"interval": INTERVAL, "alpha": 0.2}},
    "kod2+specon": {
        "policy": "kod2+specon",
        "kod2": {"cooldown_seconds": 2},
        "parameters": {"specon.interval": INTERVAL, "specon.alpha": 0.2},
    },
    # A job paused between two time slots starts its pods again, so each job must end within the slot that it gets.
    "oasis": {"policy": "oasis", "parameters": {"horizon": 30, "grace": 0.2}},
}
TIMELESS = [policy for policy in POLICIES if policy != "oasis"]  # OASiS's time slots are slots of real time.
TAKING = ("kod2", "drs", "dragon", "kod2+specon")
MOVING = ("specon", "kod2+specon")
HOPELESS = {"GangExceedsCluster", "JobRejected"}


@pytest.fixture(scope="module", autouse=True)
def kinds(live_plane: ControlPlane) -> None:
    """Define JobSets and both PodGroups, and wait until the API server serves every kind of the scenario."""
    for made in (definition(JOBSET), group_definition(COSCHEDULING), group_definition(VOLCANO)):
        live_plane.api.create(DEFINITIONS_PATH, made)
    for kind in KINDS.values():
        until(lambda kind=kind: live_plane.api.ok(f"/apis/{kind.api}/{kind.plural}"), f"{kind.plural} served")  # type: ignore[misc]


@pytest.mark.parametrize("policy", [*TIMELESS, pytest.param("oasis", marks=pytest.mark.alone)])
def test_every_job_ends_or_is_told_why_not(live_plane: ControlPlane, policy: str) -> None:
    play(live_plane, policy, arrivals(10, seed=1, seconds=5.0), gap=0.3, limit=120.0)


@pytest.mark.soak
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.timeout(900, func_only=True)
def test_twenty_jobs_end_or_are_told_why_not(live_plane: ControlPlane, policy: str) -> None:
    play(live_plane, policy, arrivals(22, seed=2, seconds=20.0), gap=8.0, limit=600.0)


def settings_of(policy: str, seconds: float, folder: Path) -> Json:
    """Return the settings for the policy; OASiS's slots are twice as long as a job, which runs for ``seconds``."""
    own = POLICIES[policy]
    if policy == "oasis":
        own = own | {"parameters": own["parameters"] | {"slot_seconds": slot_of(seconds)}}
    shared = {"journal": {"folder": str(folder)}, "release": {"backoff_initial_seconds": 1, "backoff_max_seconds": 4}}
    return own | shared | {"barrier": {"checkpoint_seconds": 1}}


def chapters_of(policy: str, people: People) -> list[Chapter]:
    """Return the scenes that must be seen under the policy: workers taken and given back, or a job migrated."""
    plane, space = people.plane, people.space
    found: list[Chapter] = [Taken(plane, space, people)] if policy in TAKING else []
    return [*found, Moved(plane, space, INTERVAL)] if policy in MOVING else found


def play(plane: ControlPlane, policy: str, coming: Iterable[Arrival], gap: float, limit: float) -> None:
    """Submit the jobs ``gap`` seconds apart, wait at most ``limit`` seconds for each job's end, and check all rules."""
    jobs = list(coming)
    folder = plane.workdir / f"journal-{policy}-{len(jobs)}"
    settings = settings_of(policy, jobs[0].seconds, folder)
    with ExitStack() as around:
        space = around.enter_context(own_namespace(plane, f"all-{policy}-{len(jobs)}"))
        observer = around.enter_context(ClusterObserver(plane, space))
        people = People(plane, space, observer)
        around.callback(people.clear, KINDS)
        with fresh_kohort(plane, settings, f"all-{policy}") as kohort, people, ExitStack() as beside:
            began = time.monotonic()
            chapters = chapters_of(policy, people)
            for chapter in chapters:
                chapter.begin(beside)
            for job in jobs:
                people.submit(job)
                time.sleep(gap)
            for job in jobs:
                until(lambda job=job: is_over(people, kohort, job), f"{job.name} at its end", limit)  # type: ignore[misc]
            for chapter in chapters:
                chapter.finish()
            took = time.monotonic() - began
            until(lambda: charged(kohort) == {}, "all room given back", seen=lambda: str(charged(kohort)))
        assert people.problem == ""
        assert {job.name for job in jobs if people.ended(job) == "Failed"} == set()
        seen = Seen.of(people, folder, scheduled=policy == "oasis")
        assert {name: told for name, told in told_of_waiting(plane, space).items() if len(told) >= 10} == {}
        for job in [*jobs, *(SERVICES if policy in TAKING else ())]:
            seen.hold_to_the_rules(job)
        waited = seen.hold_to_the_promises()
        if policy in TAKING:
            assert waited >= {rival for rival, _ in RIVALS.values()}
            seen.workers_were_taken_and_given_back()
        if policy in MOVING:
            seen.one_was_moved()
        if policy == "oasis":
            seen.schedules_were_made(jobs)
    replays_as_recorded(folder)
    print(f"{policy}: {len(jobs)} jobs in {took:.0f} s; {seen.told()}")


def is_over(people: People, kohort: Kohort, job: Arrival) -> bool:
    return why(kohort, people.space, job) in HOPELESS if job.impossible else bool(people.ended(job))


def charged(kohort: Kohort) -> Json:
    """Return by name the nodes on which Kohort still charges some room."""
    nodes = kohort.get("/v1/nodes")["nodes"]
    return {node["name"]: node for node in nodes if node["free"] != node["allocatable"]}


def why(kohort: Kohort, space: str, job: Arrival) -> str:
    found = [view for view in kohort.get("/v1/jobs")["jobs"] if (view["namespace"], view["name"]) == (space, job.name)]
    return str((found[0]["waits"] or {}).get("reason", "")) if found else ""


def replays_as_recorded(folder: Path) -> None:
    files = sorted(folder.glob("journal-*.jsonl"))
    replayed = [replay_journal(file) for file in files]
    assert sum(found.decisions for found in replayed) > 0
    assert [found.departures for found in replayed] == [()] * len(files)
