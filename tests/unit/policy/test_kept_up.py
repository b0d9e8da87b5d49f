"""Values that are updated by each change equal those computed from scratch, and old copies do not change."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from lab.sim.fluid.fluidrun import simulate
from lab.sim.simulatedstep import SimulatedStep
from policy.cluster.capacity import Capacity
from policy.cluster.constraints import ANYWHERE
from policy.cluster.index import Index
from policy.cluster.layered import SMALL, Layered, copied
from policy.cluster.memo import FEW, Memo
from policy.cluster.snapshot import MINUTE, Snapshot
from policy.cluster.sortedgroups import GroupEntry, SortedGroups
from policy.placement.ask import Ask
from policy.placement.gang import ask_of, place
from policy.placement.grow import Where, growers
from policy.placement.room import Room
from policy.systems import make_policy
from policy.systems.queue import equivalence_classes
from policy.systems.resizing import TURN_SECONDS, next_moment
from tests.builders import node, res
from tests.unit.sim.generated import made


@pytest.mark.parametrize("seed", range(5))
def test_layers_are_a_dict_in_content_and_order_and_copies_are_apart(seed: int) -> None:
    draw = random.Random(seed)
    plain = dict.fromkeys(range(SMALL), 0)
    layered = copied(plain)
    kept = []
    for turn in range(2000):
        key = draw.randrange(2 * SMALL)
        if draw.random() < 0.4:
            assert layered.pop(key, None) == plain.pop(key, None)
        else:
            layered[key] = plain[key] = turn
        assert (layered.get(key), key in layered, len(layered)) == (plain.get(key), key in plain, len(plain))
        if turn % 50 == 0:
            assert list(layered) == list(plain)
            kept.append((layered, dict(plain)))
            layered = copied(layered)
    for copy, then in [*kept, (layered, plain)]:
        assert list(copy.items()) == list(then.items())


def test_a_copy_of_a_large_map_copies_what_has_changed_and_not_what_there_is() -> None:
    layered = Layered(dict.fromkeys(range(100_000), 0))
    bases = set()
    for turn in range(1000):
        layered = layered.branch()
        layered[turn] = 1
        base, over = layered._layers
        bases.add(id(base))
        assert len(over) <= 4 * 317
    assert len(bases) == 1


def test_room_that_changes_on_every_node_is_not_copied_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = {name: node(name) for name in (f"n{number}" for number in range(2 * SMALL))}
    room = Capacity.of(nodes, {}).after(nodes, {"n0": res(2, 2)}, ["n0"])
    copies = []
    lay_in = Layered._lay_in

    def counted(layered: Layered[str, object]) -> dict[str, object]:
        copies.append(1)
        return lay_in(layered)

    monkeypatch.setattr(Layered, "_lay_in", counted)
    full = room.after(nodes, dict.fromkeys(nodes, res(1, 1)), nodes)
    assert len(copies) < 3
    assert {full.free[name] for name in nodes} == {nodes["n0"].allocatable - res(1, 1)}


def test_room_that_stays_as_it_was_is_the_same_and_keeps_what_did_not_fit() -> None:
    nodes = {name: node(name) for name in ("a", "b")}
    room = Capacity.of(nodes, {"a": res(4)})
    asked = Ask((), res(8), ANYWHERE, 2)
    assert place(Room(room), asked) is None
    assert room.after(nodes, {"a": res(4)}, ["a", "b"]) is room
    assert asked in room.misfits
    given = Room(room)
    given.give("a", res(4))
    assert place(given, asked) is not None
    assert place(Room(room.after(nodes, {}, ["a"])), asked) is not None
    cordoned = nodes | {"b": node("b", unschedulable=True)}
    assert list(room.after(cordoned, {"a": res(4)}, ["b"]).nodes) == ["a"]


def test_an_arrangement_follows_each_job_and_old_ones_stay() -> None:
    first = SortedGroups().after({"a": (("x", (2, "a")),), "b": (("x", (1, "b")), ("y", (1, "b")))})
    second = first.after({"b": (("y", (3, "b")),), "c": (("x", (1, "c")),)})
    assert second.groups == {"x": ((1, "c"), (2, "a")), "y": ((3, "b"),)}
    assert list(first.uids("x")) == ["b", "a"]
    assert second.after({"b": (), "c": ()}).groups == {"x": ((2, "a"),)}


EVERYBODY = [f"job-{number}" for number in range(5)]


@pytest.mark.parametrize(("more", "asked_about"), [(1, ["job-1"]), (2, EVERYBODY)], ids=["remembered", "forgotten"])
def test_a_question_is_forgotten_after_more_changes_than_jobs_and_a_few(more: int, asked_about: list[str]) -> None:
    memo, asked = Memo(), list[str]()

    def places(uid: str) -> tuple[GroupEntry, ...]:
        asked.append(uid)
        return (("x", (uid,)),)

    memo.sorted_groups("who", places, lambda: EVERYBODY)
    asked.clear()
    for _ in range(FEW + len(EVERYBODY) + more):
        memo = memo.without({"job-1"})
    assert list(memo.sorted_groups("who", places, lambda: EVERYBODY).uids("x")) == EVERYBODY
    assert sorted(asked) == asked_about


@pytest.mark.parametrize("name", ["kod2", "dragon", "drs"])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_kept_of_queue_and_growth_is_what_would_be_made_anew(name: str, seed: int) -> None:
    case, looked = made(seed), [0]

    def look(step: SimulatedStep) -> None:
        anew = replace(step.snapshot, index=Index.of(step.snapshot))
        assert lines(step.snapshot, step.at) == lines(anew, step.at)
        for where in Where:
            assert near(step.snapshot, where) == near(anew, where)
        for job in step.snapshot.waiting():
            asked = ask_of(step.snapshot, job, job.min_workers)
            assert place(Room.of(step.snapshot), asked) == place(Room.of(anew), asked)
        for now in (step.at, step.at + 45.0):
            assert next_moment(step.snapshot, now, 70.0, 60.0) == moment_by_hand(step.snapshot, now, 70.0, 60.0)
        looked[0] += 1

    simulate(case.trace, make_policy(name), case.settings, faults=case.faults, on_step=look)
    assert looked[0] > 10


def lines(snapshot: Snapshot, now: float) -> object:
    found, barred = equivalence_classes(snapshot, now)
    return sorted((line.ask.text, line.ask.workers, *line.entries) for line in found), barred


def moment_by_hand(snapshot: Snapshot, now: float, patience: float, cooldown: float) -> float:
    found = [
        gang.scaling.scaled_at + cooldown
        for gang in snapshot.gangs.values()
        if gang.scaling.grew is False and gang.scaling.scaled_at
    ]
    found += [turn + TURN_SECONDS for gang in snapshot.gangs.values() for turn in gang.scaling.turns]
    found += [at + MINUTE for at in snapshot.resizes]
    for job in snapshot.waiting():
        found += [job.arrival + patience, snapshot.gang(job.uid).tries.not_before]
    return min((at for at in found if at >= now), default=math.inf)


def near(snapshot: Snapshot, where: Where) -> set[str]:
    return growers(snapshot, Room.of(snapshot), where)
