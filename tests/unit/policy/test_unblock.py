"""What would admit a waiting job: each advised change is proved by a step, and no smaller change of its
kind suffices.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from policy.answers.change import Change, Kind
from policy.answers.unblock import unblock
from policy.cluster.job import WORKER, Slot
from policy.cluster.pod import Pod
from policy.cluster.snapshot import Snapshot
from policy.systems import SYSTEMS, make_policy
from policy.systems.base import Policy
from tests.builders import State, World, guest, job, node
from tests.unit.policy.lesser import smaller


def asked(world: World, name: str) -> dict[Kind, Change]:
    found = unblock(world.snapshot, f"job-{name}", world.policy, world.now)
    return {change.kind: change for change in found}


def admitted(snapshot: Snapshot, uid: str, policy: Policy, now: float, wait: float = 0.0) -> bool:
    """Return whether the policy admits the job, ``wait`` seconds later, in one decision.

    After a wait, a second decision at the same moment counts as well, once the effects of the first are carried out.
    """
    then = World(policy, now + wait, snapshot, checked=False)
    then.pass_time(0)
    if wait > 0 and not then.snapshot.gang(uid).admitted:
        carry_out(then)
    return then.snapshot.gang(uid).admitted


def carry_out(world: World) -> None:
    """Do what the decisions ask of the operators (shrink, start, grow) without letting time pass."""
    for _ in range(3):
        for one in list(world.snapshot.running()):
            world.operate(one)


def test_a_job_that_runs_needs_no_change() -> None:
    world = World().nodes("n1").start(job("a").workers(1))
    assert asked(world, "a") == {}
    assert asked(world, "nobody") == {}


def test_a_job_that_waits_for_its_pods_is_not_helped_by_room() -> None:
    world = World().nodes("n1")
    world.see(job("a").workers(1))
    assert asked(world, "a") == {}


def test_the_largest_minimum_that_fits() -> None:
    world = World().nodes(node("n1", cpu=7))
    world.submit(job("a").workers(5, 6, cpu=2))
    change = asked(world, "a")[Kind.MIN_WORKERS]
    assert (change.size, change.text) == (2, "lower kohort.dev/min-workers from 5 to 3")


@pytest.mark.parametrize("policy", ["kod2", "dragon", "fifo", "kubeflow-spread", "drf"])
def test_a_rigid_job_is_told_to_ask_for_fewer(policy: str) -> None:
    world = World(make_policy(policy)).nodes(node("n1", cpu=7))
    world.submit(job("a").workers(5, cpu=2))
    found = asked(world, "a")
    assert (found[Kind.REPLICAS].size, found[Kind.REPLICAS].text) == (2, "ask for 3 workers instead of 5")
    assert Kind.MIN_WORKERS not in found


def test_a_system_that_starts_jobs_with_all_they_ask_for_is_not_helped_by_a_lower_minimum() -> None:
    world = World(make_policy("fifo")).nodes(node("n1", cpu=7))
    world.submit(job("a").workers(2, 6, 5, cpu=2))
    found = asked(world, "a")
    assert found[Kind.REPLICAS].text == "ask for 3 workers instead of 5"
    assert Kind.MIN_WORKERS not in found


def test_a_cordoned_node_is_named() -> None:
    world = World().nodes("n1", node("n2", unschedulable=True)).start(job("a").workers(5, cpu=2))
    world.submit(job("b").workers(2, cpu=2).arrived(1))
    assert asked(world, "b")[Kind.UNCORDON].text == "uncordon node n2"


def test_nodes_that_must_be_uncordoned_together_are_named_together() -> None:
    closed = [node(name, cpu=4, unschedulable=True) for name in ("n1", "n2", "n3")]
    world = World().nodes(*closed)
    world.submit(job("a").workers(2, cpu=4, memory=1))
    change = asked(world, "a")[Kind.UNCORDON]
    assert (change.size, change.text) == (2, "uncordon nodes n1, n2")


def kept(pod: Pod) -> Pod:
    return replace(pod, terminating=True, finalizers=("example.com/backup",))


def test_a_terminating_pod_that_a_finalizer_keeps_is_what_the_job_waits_for() -> None:
    world = World().nodes("n1")
    world.see(kept(guest("other", "n1", cpu=6)), guest("small", "n1", cpu=1))
    world.submit(job("a").workers(2, cpu=4, memory=1))
    change = asked(world, "a")[Kind.GONE]
    assert change.text == "wait until team/other (kept by its finalizer example.com/backup) is gone"
    assert admitted(change.apply(world.snapshot), "job-a", world.policy, world.now)


def test_the_end_of_a_job_whose_pod_a_finalizer_keeps_starts_nobody() -> None:
    world = World().nodes("n1").start(job("a").workers(1, cpu=6))
    world.submit(job("b").workers(1, cpu=6).arrived(1))
    assert Kind.END in asked(world, "b")
    world.see(kept(world.pod("a-worker-0")))
    assert Kind.END not in asked(world, "b")


def test_a_plan_into_room_that_is_never_freed_is_no_start() -> None:
    world = World().nodes(node("n1", cpu=8)).start(job("a", utility=4).workers(1, 4, asked=4, cpu=2))
    world.submit(job("b").workers(1, cpu=2).arrived(1))
    assert Kind.UTILITY in asked(world, "b")
    world.see(kept(world.pod("a-worker-3")))
    found = asked(world, "b")
    assert world.state("b") is State.WAITING
    assert Kind.NODES in found
    assert Kind.UTILITY not in found


def test_the_fewest_workers_of_the_running_jobs_whatever_their_weight() -> None:
    # Neither running job is lighter than the waiting one, so the policy itself takes no workers from them.
    world = World().nodes("n1", "n2")
    world.start(job("a", utility=9).workers(1, 5, cpu=2), job("b", utility=9).workers(1, 5, cpu=2))
    world.submit(job("c", utility=0.01).workers(2, cpu=2).arrived(1))
    change = asked(world, "c")[Kind.WORKERS]
    assert (change.size, change.text) == (2, "take 2 workers: 2 from team/a")


def test_a_utility_just_above_that_of_the_job_that_could_be_shrunk() -> None:
    world = World().nodes("n1").start(job("a", utility=4).workers(1, 5, cpu=2))
    world.submit(job("b").workers(1, cpu=2).arrived(1))
    change = asked(world, "b")[Kind.UTILITY]
    assert change.text == "raise kohort.dev/utility from 1 to 4.001"


def test_the_end_of_the_smallest_job_that_is_enough() -> None:
    world = World().nodes("n1").start(job("a").workers(1, cpu=2), job("b").workers(2, cpu=4, memory=1))
    world.submit(job("c").workers(2, cpu=4, memory=1).arrived(1))
    assert asked(world, "c")[Kind.END].text == "wait for the end of team/b"


def test_a_finished_job_that_keeps_its_room_is_named_first() -> None:
    world = World().nodes("n1").start(job("a", keeps_pods=True).ps(cpu=5).workers(1, cpu=5))
    done = world.snapshot.jobs["job-a"]
    world.see(replace(done, finished=True))
    world.submit(job("b").workers(2, cpu=4).arrived(1))
    assert asked(world, "b")[Kind.DELETE].text == "delete finished job team/a"


def test_a_gang_that_no_wait_can_help_is_told_how_many_nodes_would() -> None:
    world = World().nodes("n1")
    world.submit(job("a").workers(11, cpu=2))
    change = asked(world, "a")[Kind.NODES]
    assert (change.size, change.text) == (2, "add 2 nodes like n1")


def test_the_end_of_the_back_off() -> None:
    world = World().nodes("n1")
    world.submit(job("a").workers(1))
    world.pass_time(world.snapshot.rules.plan_seconds)  # no member calls bind, so the plan is given up
    waits = world.gang("a").tries.not_before - world.now
    assert waits > 0
    assert asked(world, "a")[Kind.WAIT].size == waits


def crowded(seed: int, policy: Policy) -> World:
    """Draw nodes of two sizes with a foreign pod, and elastic and rigid jobs, of which at least one has to wait."""
    draw = random.Random(seed)
    world = World(policy)
    world.nodes(*(node(f"n{i}", cpu=draw.choice((8, 16)), unschedulable=i == 3) for i in range(4)))
    world.see(guest("other", "n0", cpu=draw.randint(1, 4)))
    for index in range(draw.randint(3, 6)):
        least = draw.randint(1, 3)
        shape = job(f"r{index}", utility=draw.choice((1, 2, 4))).arrived(index)
        made = shape.workers(least, least + draw.randint(0, 3), cpu=draw.choice((1, 2, 4)), memory=1)
        world.submit(made.ps() if draw.random() < 0.5 else made)
        carry_out(world)
        world.now += 1
    world.submit(job("late", utility=draw.choice((0.5, 1, 2))).ps().workers(draw.randint(4, 8), cpu=4).arrived(100))
    world.now += 101
    return world


# `make test` runs the first share of the worlds.
SHARES = [pytest.param(range(10), id="first 10"), pytest.param(range(10, 40), id="others", marks=pytest.mark.full)]
# The kinds of change, by policy, that the waiting jobs of the first seeds are advised and that can be made smaller.
EVERYWHERE = {Kind.REPLICAS, Kind.NODES, Kind.END, Kind.UNCORDON}
PAPERS = {
    "kod2": EVERYWHERE | {Kind.WAIT, Kind.MIN_WORKERS, Kind.UTILITY},
    "drs": EVERYWHERE | {Kind.MIN_WORKERS, Kind.UTILITY},
    "dragon": EVERYWHERE,
    "specon": EVERYWHERE,  # SpeCon starts a gang only with all its workers, so a lower minimum does not help
}


# Left out: OASiS has a file of its own, fifo-pod has no waiting gangs, RRH decides only when a job comes or ends.
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("name", sorted(SYSTEMS.keys() - {"fifo-pod", "oasis", "rrh"}))
def test_every_change_admits_the_job_and_every_waiting_job_is_told_one(name: str, seeds: range) -> None:
    policy, waiting = make_policy(name), 0
    for seed in seeds:
        world = crowded(seed, policy)
        for uid in [one.uid for one in world.snapshot.waiting()]:
            waiting += 1
            changes = unblock(world.snapshot, uid, policy, world.now)
            assert changes, (seed, uid, world.snapshot.verdicts.get(uid))
            for change in changes:
                copy = change.apply(world.snapshot)
                assert admitted(copy, uid, policy, world.now, change.wait), (seed, uid, change.text)
    assert waiting >= len(seeds)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted(PAPERS))
def test_no_smaller_change_of_the_kind_does(name: str) -> None:
    """Smaller changes are fewer workers or nodes, the end of a smaller job, a lower utility, and ten shorter waits."""
    policy, tried = make_policy(name), set[Kind]()
    for seed in range(12):
        world = crowded(seed, policy)
        for one in list(world.snapshot.waiting()):
            for change in unblock(world.snapshot, one.uid, policy, world.now):
                for copy, later in smaller(world.snapshot, one, change, policy, world.now):
                    tried.add(change.kind)
                    assert not admitted(copy, one.uid, policy, world.now, later), (seed, one.uid, change.text)
    assert tried == PAPERS[name]


# By seed, of the first twelve: the jobs that are advised to wait. r5 gets room only after r3 has got its room.
TOLD_TO_WAIT = {0: {"r4"}, 1: {"r3", "r5"}, 3: {"late"}, 6: {"r3"}, 8: {"late"}, 9: {"late"}}


@pytest.mark.parametrize("seed", TOLD_TO_WAIT)
def test_who_waits_as_long_as_told_starts_then(seed: int) -> None:
    """Time passes in steps of a minute and to the end of each advised wait; each job starts at the end of its wait."""
    world = crowded(seed, make_policy("kod2"))
    told = {one.name: asked(world, one.name).get(Kind.WAIT) for one in world.snapshot.waiting()}
    waits = {name: change.size for name, change in told.items() if change is not None}
    assert waits.keys() == TOLD_TO_WAIT[seed]
    then = World(world.policy, world.now, world.snapshot, checked=False)
    for seconds in sorted({*range(0, int(max(waits.values())), 60), *waits.values()}):
        then.now = world.now + seconds
        then.pass_time(0)
        at_once = {name for name in waits if then.gang(name).admitted}
        carry_out(then)
        in_the_end = {name for name in waits if then.gang(name).admitted}
        assert at_once == in_the_end == {name for name, wait in waits.items() if wait <= seconds}, seconds


def test_a_rebalancer_above_the_policy_takes_no_advice_away() -> None:
    """The starvation limit, on which the advice to wait depends, is the base policy's."""
    alone = crowded(3, make_policy("kod2"))
    beneath = crowded(3, make_policy("kod2+specon"))
    assert Kind.WAIT in asked(alone, "late")
    assert asked(beneath, "late").keys() == asked(alone, "late").keys()


@pytest.mark.parametrize("seed", [3, 8, 9, 16])  # of the first twenty seeds, those in which taking workers is advised
def test_no_smaller_set_of_workers_would_do(seed: int) -> None:
    policy = make_policy("kod2")
    world = crowded(seed, policy)
    found = asked(world, "late")[Kind.WORKERS]
    running = {one.uid: world.snapshot.gang(one.uid).workers - one.min_workers for one in world.snapshot.running()}
    for counts in itertools.product(*(range(most + 1) for most in running.values())):
        if sum(counts) < found.size:
            fewer = without(world.snapshot, dict(zip(running, counts, strict=True)))
            assert not admitted(fewer, "job-late", policy, world.now), (counts, found.text)


def without(snapshot: Snapshot, counts: dict[str, int]) -> Snapshot:
    """Return the snapshot without the last ``counts[uid]`` workers of each job, whose room is free."""
    gone = {
        snapshot.members[uid][Slot(WORKER, snapshot.gang(uid).workers - 1 - index)]
        for uid, count in counts.items()
        for index in range(count)
    }
    gangs = {
        uid: replace(
            gang,
            workers=gang.workers - counts.get(uid, 0),
            nodes={s: n for s, n in gang.nodes.items() if s.role != WORKER or s.index < gang.workers - counts[uid]}
            if uid in counts
            else gang.nodes,
        )
        for uid, gang in snapshot.gangs.items()
    }
    charged = dict(snapshot.charged)
    for uid in gone:
        pod = snapshot.pods[uid]
        charged[pod.node] = charged[pod.node] - pod.requests
    members = {
        uid: {slot: pod for slot, pod in slots.items() if pod not in gone} for uid, slots in snapshot.members.items()
    }
    return replace(
        snapshot,
        gangs=gangs,
        charged=charged,
        members=members,
        pods={uid: pod for uid, pod in snapshot.pods.items() if uid not in gone},
        charges={uid: charge for uid, charge in snapshot.charges.items() if uid not in gone},
    )
