"""What a policy remembers of a job is written to the job's object before it acts, and read back unchanged."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from policy.cluster.actions import Admit
from policy.cluster.events import Event, JobSeen, Led, NodeSeen, PodSeen, Reported, Synced
from policy.cluster.snapshot import Snapshot
from policy.cluster.training import Report, Training, Utility
from policy.keep import MOST_MEMORY, read_memory, write_memory
from policy.systems.base import Policy
from policy.systems.growth import Category, Progress, read_progress, write_progress
from policy.systems.guests import KEY as HOME
from policy.systems.guests import Guests
from policy.systems.kod2 import Kod2
from policy.systems.oasis import Oasis
from policy.systems.oasis.policy import OasisCycle
from policy.systems.oasis.schedule import MEMORY, Book, Postponed
from policy.systems.rebalanced import Rebalanced
from policy.systems.specon import CLOCK, SpeCon
from policy.systems.specon import KEY as GROWTH
from tests.builders import JobBuilder, State, World, job, node

SLOT = 1000.0
OASIS = Oasis(slot_seconds=SLOT, horizon=10)
CHEAP = Utility(0.01, 0.0, 1.0)


def trains(name: str, slots: int, most: int = 4, utility: Utility | None = None) -> JobBuilder:
    training = Training(
        epochs=-(-slots // most), chunks=most, seconds=SLOT, utility=utility or Utility(100.0, 0.1, 20.0),
        worker_bandwidth=1.0, ps_bandwidth=5.0,
    )  # fmt: skip
    return job(name, training=training, holds_notes=True).ps(1, cpu=1).workers(1, most, asked=1, cpu=2)


def live(policy: Policy) -> World:
    """Return a world with two nodes in which what the policy remembers is stored on the job objects."""
    return World(policy).rules(stores=True).nodes(node("n1", cpu=12), node("n2", cpu=8))


def write(made: World) -> None:
    """Write to each job object the text that the snapshot wants there, as the controller does."""
    for uid, text in made.snapshot.texts.items():
        if uid in made.snapshot.jobs and made.snapshot.jobs[uid].memory != text:
            made.see(replace(made.snapshot.jobs[uid], memory=text))


def restarted(made: World, *more: Event) -> World:
    """Return a new world, as after a restart, that has read the same objects and then ``more`` events."""
    other = World(made.policy, now=made.now, snapshot=Snapshot(rules=made.snapshot.rules))
    old = made.snapshot
    other.do(*map(NodeSeen, old.nodes.values()), *map(JobSeen, old.jobs.values()), *map(PodSeen, old.pods.values()))
    other.do(*more, Synced())
    return other


def busy(policy: Policy = OASIS) -> World:
    """Return a world with two jobs that run by their schedules and one that was refused."""
    made = live(policy)
    for one in (trains("a", 8), trains("b", 14, most=2)):
        made.submit(one)
        write(made)
        made.bind(one)
        made.operate(one)
    made.submit(trains("cheap", 4, utility=CHEAP))
    write(made)
    return made


def book(made: World) -> Book:
    found = made.snapshot.memory[MEMORY]
    assert isinstance(found, Book)
    return found


def prices(made: World) -> Any:
    planner = OasisCycle(OASIS, made.snapshot, made.now).plans.planner
    return planner._prices.units(planner._used)


def test_schedules_prices_refusals_and_the_slot_survive_a_restart_unchanged() -> None:
    made = busy()
    assert len(book(made).plans) == 2
    assert list(book(made).rejected) == ["job-cheap"]
    made.pass_time(SLOT - made.now % SLOT)
    write(made)
    other = restarted(made)
    assert book(other) == book(made)
    assert other.snapshot.texts == made.snapshot.texts
    assert np.array_equal(prices(other), prices(made))
    assert (prices(other) > 0).any()
    assert other.reason("cheap") == "JobRejected"


def test_when_a_refused_job_is_offered_again_survives_a_restart() -> None:
    policy = replace(OASIS, offer_again=1)
    made = busy(policy)
    (before,) = book(made).rejected.values()
    other = restarted(made)
    assert before == Postponed(before.why, before.slot, 1)
    assert list(book(other).rejected.values()) == [before]


def test_a_restart_in_the_middle_of_a_slot_asks_no_report_again() -> None:
    """The old process has taken over the reports at the slot's beginning; a later report counts only from the next
    slot.
    """
    made = busy()
    made.do(Reported("job-b", Report(made.now, done=0.01)))
    made.pass_time(SLOT - made.now % SLOT + 300.0)
    write(made)
    late = Reported("job-b", Report(made.now, done=0.0))
    made.do(late)
    other = restarted(made, late)
    assert book(other).plans == book(made).plans
    for one in (made, other):
        one.pass_time(SLOT)
    assert book(other).plans == book(made).plans != {}


def test_nothing_starts_before_its_schedule_is_on_the_object() -> None:
    made = live(OASIS)
    effects = made.submit(trains("a", 8))
    assert not any(isinstance(effect, Admit) for effect in effects)
    assert (made.state("a"), made.reason("a")) == (State.WAITING, "DecisionBeingStored")
    assert "job-a" in book(made).plans
    write(made)
    assert made.state("a") is State.PLANNED


def test_a_crash_before_the_write_leaves_a_job_that_nothing_was_decided_about() -> None:
    made = live(OASIS)
    made.submit(trains("a", 8))
    other = restarted(made)
    assert (other.state("a"), other.reason("a")) == (State.WAITING, "DecisionBeingStored")
    assert other.snapshot.texts == made.snapshot.texts


def test_a_replica_that_takes_over_goes_by_what_the_other_has_written() -> None:
    leader, follower = busy(), live(OASIS)
    follower.do(Led(False))
    snapshot = leader.snapshot
    follower.do(*map(JobSeen, snapshot.jobs.values()), *map(PodSeen, snapshot.pods.values()))
    follower.do(Led(True))
    assert book(follower) == book(leader)


def test_what_somebody_writes_there_while_we_decide_is_written_over() -> None:
    made = busy()
    before = book(made)
    forged = json.loads(made.snapshot.texts["job-a"]) | {"oasis": {"rejected": "so there"}}
    made.see(replace(made.snapshot.jobs["job-a"], memory=json.dumps(forged)))
    assert book(made) is before
    assert made.snapshot.texts["job-a"] != made.snapshot.jobs["job-a"].memory


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from leaves(item, (*path, key))


JUNK: tuple[Any, ...] = (None, True, -1, 0.5, 10**30, math.nan, math.inf, "x" * 2000, [], [[]], {"x": "y"})


def spoilt(text: str) -> Iterator[str]:
    """Yield the JSON text with each of its values replaced by each kind of junk."""
    for path in leaves(json.loads(text)):
        for junk in JUNK if path else ():
            found = json.loads(text)
            at = found
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = junk
            yield json.dumps(found)


@pytest.mark.parametrize(
    "text",
    ["x", "[]", "{}", "null", "[" * 50_000, '{"v": 2}', '{"v": 1, "job": "job-a", "oasis": 7}',
     '{"v": 1, "job": "job-a", "oasis": {"plan": []}}', "9" * (MOST_MEMORY + 1), '"\\ud800"'],
)  # fmt: skip
def test_a_text_that_makes_no_sense_counts_as_none(text: str) -> None:
    clean, made = restarted(busy_without("job-a", "")), restarted(busy_without("job-a", text[:200_000]))
    assert book(made) == book(clean)
    assert "job-b" in book(made).plans


def busy_without(uid: str, text: str) -> World:
    made = busy()
    made.see(replace(made.snapshot.jobs[uid], memory=text))
    return made


def test_no_spoilt_value_of_a_schedule_ever_harms_another_job() -> None:
    made = busy()
    original = made.snapshot.jobs["job-a"].memory
    kept = 0
    for text in spoilt(original):
        parts = {"job-a": read_memory(replace(made.snapshot.jobs["job-a"], memory=text)),
                 "job-b": read_memory(made.snapshot.jobs["job-b"])}  # fmt: skip
        found = OASIS.recalled(made.snapshot, parts)[MEMORY]
        assert isinstance(found, Book)
        assert found.plans["job-b"] == book(made).plans["job-b"]
        kept += "job-a" in found.plans
    assert kept > 0  # some junk is a valid value, such as a payoff of 0.5, and its plan is kept


def test_a_copied_object_brings_no_schedule_along() -> None:
    made = busy()
    copied = replace(made.snapshot.jobs["job-b"], memory=made.snapshot.jobs["job-a"].memory)
    assert read_memory(copied) == {}
    assert read_memory(made.snapshot.jobs["job-a"]) != {}


def test_a_memory_too_long_for_an_annotation_is_not_stored_and_keeps_nobody_waiting() -> None:
    class Wordy(Oasis):
        def parts(self, memory: Any) -> Any:
            return {uid: {**part, "more": "x" * MOST_MEMORY} for uid, part in super().parts(memory).items()}

    made = live(Wordy(slot_seconds=SLOT, horizon=10))
    made.submit(trains("a", 8))
    assert made.state("a") is State.PLANNED
    assert made.snapshot.texts == {}


def test_a_job_without_an_object_of_its_own_waits_for_no_write() -> None:
    made = live(OASIS)
    made.submit(trains("a", 8).with_(holds_notes=False))
    assert made.state("a") is State.PLANNED


def cordoned(*running: JobBuilder) -> World:
    """Return a world in which a planned job's node is cordoned before its policy's memory is stored on its object."""
    made = live(Rebalanced(Kod2(), SpeCon(interval=10.0))).start(*running)
    made.submit(job("a", holds_notes=True).workers(2, 4, cpu=2))
    made.pass_time(10.0)  # in SpeCon's round, after which the policy remembers something of the job
    (host,) = set(made.plan("a").values())
    made.see(replace(made.snapshot.nodes[host], unschedulable=True))
    assert (made.state("a"), made.reason("a")) == (State.WAITING, "DecisionBeingStored")
    return made


def test_a_job_that_waits_for_the_write_does_not_grow_meanwhile() -> None:
    made = cordoned()
    assert made.gang("a").workers == 0
    write(made)
    assert (made.state("a"), made.gang("a").workers) == (State.PLANNED, 4)


def test_nobody_is_shrunk_for_a_job_before_the_write() -> None:
    made = cordoned(job("light").workers(1, 6, cpu=2))
    assert made.gang("light").workers == 6
    write(made)
    assert (made.state("a"), made.gang("light").workers) == (State.PLANNED, 4)


def specon() -> World:
    """Return a world with a job whose metric falls ever more slowly, as it reported for ten minutes."""
    made = live(Rebalanced(OASIS, SpeCon(interval=30.0)))
    one = trains("a", 8)
    made.submit(one)
    write(made)
    made.bind(one)
    made.operate(one)
    for round_ in range(20):
        made.now += 30.0
        made.do(Reported("job-a", Report(made.now, metric=1.0 + 0.5**round_)))
    write(made)
    return made


def test_growth_and_moves_survive_a_restart_beside_the_schedule() -> None:
    made = specon()
    other = restarted(made)
    assert other.snapshot.memory[GROWTH + "job-a"] == made.snapshot.memory[GROWTH + "job-a"]
    assert other.snapshot.memory[CLOCK] == made.snapshot.memory[CLOCK]
    assert book(other) == book(made)


def test_growth_is_read_with_its_restart_and_from_a_text_without_one() -> None:
    told = Progress(10.0, Category.CONVERGED, 9.0, 1.0, 1.0, 10.0, 0.1, 10.0, moved=True)
    assert read_progress(write_progress(told.restarted(20.0))) == told.restarted(20.0)
    assert read_progress(write_progress(told)[:-1]) == told
    assert read_progress(write_progress(told)[:-2]) is None


def test_a_guest_knows_its_home_after_a_restart() -> None:
    made = live(Guests())
    one = job("a", holds_notes=True).workers(1)
    made.start(one)
    text = write_memory("job-a", {"guests": "n2"})
    other = restarted_with(made, text)
    assert other.snapshot.memory[HOME + "job-a"] == "n2"
    assert HOME + "job-a" not in restarted_with(made, write_memory("job-a", {"guests": "no-such-node"})).snapshot.memory


def restarted_with(made: World, text: str) -> World:
    made.see(replace(made.snapshot.jobs["job-a"], memory=text))
    return restarted(made)
