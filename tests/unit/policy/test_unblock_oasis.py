"""What would make OASiS run a job that it has refused or planned for later: the advised change is made, and the job
runs.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import chain, islice

import pytest

from policy.answers.change import Change, Kind
from policy.answers.changes import candidates
from policy.answers.operated import forward
from policy.answers.unblock import unblock
from policy.answers.worth import dearer, with_more_time
from policy.cluster.events import PodGone, PodSeen
from policy.cluster.gang import State
from policy.cluster.job import Job
from policy.cluster.pod import Phase
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import Snapshot, reason_of
from policy.cluster.training import Training, Utility
from policy.systems import make_policy
from policy.systems.base import Policy
from policy.systems.oasis.execute import NOT_FREE
from policy.systems.oasis.schedule import MEMORY, Book
from tests.builders import START, World, guest, job, node
from tests.unit.policy.lesser import smaller

SLOT = 60.0
BEGINS = START // SLOT * SLOT
# `make test` runs the first share of the worlds.
FIRST, OTHERS = range(12), range(12, 36)


def carry_out(world: World) -> None:
    """Remove and create again the pods of paused jobs, and bring the other jobs to their targets."""
    for _ in range(4):
        for one in list(world.snapshot.jobs.values()):
            gang = world.snapshot.gang(one.uid)
            if gang.state in (State.PAUSED, State.RELEASING):
                held = [pod for pod in world.snapshot.every_pod_of(one.uid) if pod.holds_room]
                fresh = (replace(world.fresh(pod), node="", phase=Phase.PENDING, plan="") for pod in held)
                world.do(*(PodGone(pod.uid) for pod in held), *map(PodSeen, fresh))
            elif gang.admitted:
                world.operate(one)


def priced(seed: int, targets: tuple[int, int] = (3, 12)) -> World:
    """Let one job a slot arrive on four nodes, more than fit; jobs end when their work is done. Stop in the middle of a
    slot.

    targets: the range of the jobs' utility targets, in slots.
    """
    draw = random.Random(seed)
    world = World(make_policy("oasis", slot_seconds=SLOT, horizon=30), now=BEGINS)
    world.nodes(*(node(f"n{i}", cpu=draw.choice((8, 16)), unschedulable=i == 3) for i in range(4)))
    world.see(guest("other", "n0", cpu=draw.randint(1, 4)))
    left: dict[str, int] = {}
    for index in range(draw.randint(5, 8)):
        chunks, least = draw.randint(8, 20), draw.randint(1, 3)
        utility = Utility(draw.choice((1, 10, 100)), draw.choice((0.0, 0.2, 1.0)), draw.randint(*targets))
        shape = job(f"r{index}", training=Training(chunks=chunks, seconds=SLOT, utility=utility), arrival=world.now)
        made = shape.with_(suspends=True).workers(
            least, least + draw.randint(1, 5), cpu=draw.choice((1, 2, 4)), memory=1
        )
        left[made.done().uid] = chunks
        world.submit(made.ps() if draw.random() < 0.5 else made)
        carry_out(world)
        world.now += SLOT
        for one in list(world.snapshot.running()):
            left[one.uid] -= world.snapshot.gang(one.uid).workers
            if left[one.uid] <= 0:
                world.end(one)
        world.pass_time(0)
        carry_out(world)
    world.pass_time(draw.uniform(1, SLOT - 1))
    return world


def admitted(copy: Snapshot, uid: str, world: World, change: Change) -> bool:
    """Return whether the job is admitted in the changed snapshot, at once or after the first decision is
    carried out.
    """
    then = World(world.policy, world.now + change.wait, copy, checked=False)
    then.pass_time(0)
    if not then.snapshot.gang(uid).admitted:
        carry_out(then)
    return then.snapshot.gang(uid).admitted


@cache
def asked(seed: int) -> tuple[World, dict[str, tuple[Change, ...]]]:
    """Return the world of this seed, and the changes that each waiting job is advised, by uid."""
    world = priced(seed)
    waiting = [one.uid for one in world.snapshot.waiting()]
    return world, {uid: unblock(world.snapshot, uid, world.policy, world.now) for uid in waiting}


@pytest.mark.parametrize("seed", [*FIRST, *(pytest.param(seed, marks=pytest.mark.full) for seed in OTHERS)])
def test_every_change_has_the_job_run(seed: int) -> None:
    world, told = asked(seed)
    for uid, changes in told.items():
        for change in changes:
            assert admitted(change.apply(world.snapshot), uid, world, change), (uid, change.text)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("seeds", "least"), [(FIRST, 15), pytest.param(OTHERS, 25, marks=pytest.mark.full)], ids=["first", "others"]
)
def test_those_that_wait_are_told_a_change(seeds: range, least: int) -> None:
    """In these worlds every waiting job is advised a change; the next test has jobs for which no change is found."""
    told = [changes for seed in seeds for changes in asked(seed)[1].values()]
    assert len(told) >= least
    assert all(told)


# Jobs that are advised no change, by (targets, seed, uid), and why no change makes them run in the next slot.
TAKEN = {((0, 2), 19, "job-r6"): NOT_FREE.detail, ((0, 2), 28, "job-r4"): NOT_FREE.detail}
LATER = {((3, 12), 38, "job-r6"): "it goes on in time slot"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("which", "cause"), [*TAKEN.items(), *LATER.items()])
def test_who_is_told_none_is_refused_or_planned_but_not_for_the_next_slot(
    which: tuple[tuple[int, int], int, str], cause: str
) -> None:
    """A job that runs past its plan holds the nodes, or the job's schedule is cheaper in a later slot."""
    targets, seed, uid = which
    world = priced(seed, targets)
    assert unblock(world.snapshot, uid, world.policy, world.now) == ()
    at = world.policy.next_moment(world.now)
    begun = submitted_anew(world, world.snapshot.jobs[uid], at - world.now)
    fresh, told = begun.jobs[uid], set[str]()
    for change in chain(*(islice(kind, 12) for kind in kinds(begun, fresh, world.policy, at))):
        then = forward(change.apply(begun), (), world.policy, at)
        verdict = reason_of(then, then.jobs[uid])
        assert not then.gang(uid).admitted, change.text
        if verdict.reason is not Reason.REJECTED:
            told.add(verdict.detail)
        if verdict.detail == NOT_FREE.detail:
            assert any(overdue(then)), change.text
    assert told
    assert all(detail.startswith(cause) for detail in told), told


def kinds(snapshot: Snapshot, one: Job, policy: Policy, at: float) -> Iterator[Iterable[Change]]:
    """Return all changes that a refused job may be advised, except waiting."""
    return chain((dearer(one), with_more_time(one)), islice(candidates(snapshot, one, policy, at), 1, None))


def overdue(snapshot: Snapshot) -> list[str]:
    """Return the uids of the running jobs that have no slots left in their plans."""
    book = snapshot.memory[MEMORY]
    assert isinstance(book, Book)
    return [one.uid for one in snapshot.running() if one.uid in book.plans and not book.plans[one.uid].shifts]


# Worlds, as (range of targets, seed), in which a higher utility value or a later target is advised.
PRICED = [((3, 12), seed) for seed in (0, 3, 33)] + [((0, 2), seed) for seed in (7, 17, 30, 35)]


TRIED = {Kind.UTILITY, Kind.TARGET, Kind.UNCORDON, Kind.END, Kind.NODES}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("worlds", "least"),
    [pytest.param(PRICED[::4], {Kind.UTILITY, Kind.TARGET}, id="a quarter"),
     pytest.param(PRICED, TRIED, id="all", marks=pytest.mark.full)],
)  # fmt: skip
def test_no_smaller_change_of_the_kind_does(worlds: list[tuple[tuple[int, int], int]], least: set[Kind]) -> None:
    """Smaller changes are fewer nodes, the end of a smaller job, a lower utility (by the last figure), an earlier
    target.
    """
    tried = set[Kind]()
    for targets, seed in worlds:
        world = priced(seed, targets)
        for one in list(world.snapshot.waiting()):
            for change in unblock(world.snapshot, one.uid, world.policy, world.now):
                if change.kind is Kind.WAIT:
                    continue  # the advice is to wait for the slot of the job's plan, and a shorter wait cannot suffice
                begun = submitted_anew(world, one, change.wait)
                for copy, later in smaller(begun, begun.jobs[one.uid], change, world.policy, world.now):
                    tried.add(change.kind)
                    assert not admitted(copy, one.uid, world, replace(change, wait=later)), (seed, one.uid, change.text)
    assert least <= tried <= TRIED


def submitted_anew(world: World, one: Job, wait: float) -> Snapshot:
    """Return the snapshot in which the policy has forgotten the job, and the job arrives ``wait`` seconds from now."""
    assert world.policy.judges_once
    then = world.snapshot
    jobs = {**then.jobs, one.uid: replace(one, arrival=world.now + wait)}
    return replace(then, jobs=jobs, memory=world.policy.forget(then.memory, one.uid))


def full() -> World:
    """Let a job of high utility take all of the only node for ten slots."""
    world = World(make_policy("oasis", slot_seconds=SLOT, horizon=30), now=BEGINS)
    world.nodes(node("n1", cpu=4))
    first = Training(chunks=20, seconds=SLOT, utility=Utility(100, 0.0, 0.0))
    world.submit(job("first", training=first, arrival=world.now).workers(2, cpu=2, memory=1))
    carry_out(world)
    return world


def test_a_refused_job_is_told_what_it_would_have_to_be_worth_and_when_it_would_be_on_time() -> None:
    world = full()
    late = Training(chunks=4, seconds=SLOT, utility=Utility(100, 5.0, 2.0))
    world.submit(job("late", training=late, arrival=world.now).workers(2, cpu=2, memory=1))
    assert world.reason("late") == Reason.REJECTED.value
    found = {change.kind: change for change in unblock(world.snapshot, "job-late", world.policy, world.now)}
    assert found[Kind.NODES].size == 1
    assert found[Kind.END].text.startswith("wait for the end of team/first, and submit the job again")
    assert Kind.WAIT not in found  # the refused job has no slot to wait for


def test_a_planned_job_is_told_its_slot() -> None:
    world = full()
    later = Training(chunks=4, seconds=SLOT, utility=Utility(100, 0.0, 0.0))
    world.submit(job("later", training=later, arrival=world.now).workers(2, cpu=2, memory=1))
    found = {change.kind: change for change in unblock(world.snapshot, "job-later", world.policy, world.now)}
    assert found[Kind.WAIT].size == pytest.approx(10 * SLOT, abs=SLOT)
