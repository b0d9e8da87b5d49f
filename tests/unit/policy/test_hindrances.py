"""Hindrances to growth: each is named, alone and combined, and every job in generated worlds is told one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from lab.sim.simulatedstep import SimulatedStep
from lab.sim.traces import kod2
from lab.virtual.podrun import simulate
from policy.answers.hindrances import grows
from policy.answers.operated import without
from policy.answers.standing import held_back
from policy.cluster.constraints import Constraints
from policy.cluster.events import PodGone, PodSeen, Reported
from policy.cluster.gang import State
from policy.cluster.job import Job
from policy.cluster.pod import Phase
from policy.cluster.snapshot import Snapshot
from policy.cluster.training import Report
from policy.placement.gang import worker_demand
from policy.systems import make_policy
from tests.builders import World, guest, job, node, taint, w
from tests.unit.policy.test_unblock import carry_out, crowded

ROOM = "room: no node that it may grow on has what one more worker asks for (2 cpu, 4 GiB memory)"
QUEUE = "jobs that wait: free room is kept for them (team/b among them)"
FALLBACK = "gives it no more workers now"


def said(world: World, name: str = "a") -> str:
    return held_back(world.snapshot, world.snapshot.jobs[f"job-{name}"], world.policy, world.now)


def waiting(world: World, name: str = "b") -> World:
    """Add a job that waits because its worker needs more cores than any node has free."""
    world.submit(job(name, utility=0.001).workers(1, cpu=8, memory=1).arrived(1))
    return world


# -- In the tests below, each hindrance to growth is named. --------------------------------------


def test_free_room_on_its_own_node_is_kept_by_the_queue_and_it_does_not_lack_room() -> None:
    """Job a is not told that it lacks room: additional room would start the waiting job first."""
    world = waiting(World().nodes(node("n1", cpu=4)).start(job("a").workers(2, 9)))
    world.see(node("n1", cpu=9))
    assert world.snapshot.free("n1")["cpu"] == 5000
    assert said(world) == QUEUE


def test_of_two_the_heavier_grows_first_once_nobody_waits() -> None:
    light, heavy = job("a").workers(1, 9), job("heavy", utility=5.0).workers(1, 9)
    world = World().nodes(node("n1", cpu=4))
    world.submit(light, heavy)
    world.bind(light)
    world.bind(heavy)
    waiting(world)
    world.see(node("n1", cpu=8))
    assert (world.gang("a").workers, world.gang("heavy").workers) == (1, 1)
    assert said(world) == f"{QUEUE}; and other jobs that grow first (team/heavy before it)"
    assert said(world, "heavy") == QUEUE


def test_the_cool_down_and_the_queue_where_neither_alone_is_enough() -> None:
    world = World().nodes("n1").start(job("a").workers(1, 5))
    world.submit(job("c", utility=9.0).workers(2, cpu=2, memory=1).arrived(1))
    world.operate(world.snapshot.jobs["job-a"])
    world.bind(world.snapshot.jobs["job-c"])
    waiting(world)
    world.end(world.snapshot.jobs["job-c"])
    assert said(world) == f"its cool-down: 60 s are left of 60 s; and {QUEUE}"


def test_room_that_its_nodes_lack_and_a_node_that_is_no_choice() -> None:
    world = World().nodes(node("n1", cpu=8), node("n2", cpu=8))
    world.see(guest("other", "n1", cpu=4), guest("else", "n2", cpu=6))
    world.start(job("a").workers(1, 4))
    world.do(PodGone("uid-else"))
    assert said(world) == (
        f"{ROOM}; n1 has 0 cpu free; n2 has the room, but a job that one node could hold whole grows only on nodes "
        "that it runs on (scale_out: together)"
    )


def test_a_job_that_no_node_could_hold_whole_is_told_of_all_nodes() -> None:
    world = World().nodes(node("n1", cpu=5), node("n2", cpu=1)).start(job("a").workers(2, 9))
    assert said(world) == f"{ROOM}; n1 has 1 cpu free; no other node has room for it either"


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"unschedulable": True}, "n1 is cordoned"),
        ({"ready": False}, "n1 is not ready"),
        ({"taints": (taint("only"),)}, "n1 does not match its workers' node selector, affinity or tolerations"),
    ],
)
def test_a_node_of_its_own_that_takes_nobody(changed: dict[str, Any], text: str) -> None:
    world = World().nodes(node("n1", cpu=4)).start(job("a").workers(2, 9))
    world.see(node("n1", cpu=8, **changed))
    assert said(world) == f"{ROOM}; {text}; no other node has room for it either"


def test_a_node_of_its_ps_that_its_workers_do_not_select() -> None:
    disk = Constraints(node_selector=(("disk", "fast"),))
    world = World().nodes(node("n1", cpu=5, labels={"disk": "fast"}))
    world.start(job("a").ps().workers(2, 9, constraints=disk))
    world.see(node("n1", cpu=9))
    unlike = "n1 does not match its workers' node selector, affinity or tolerations"
    assert said(world) == f"{ROOM}; {unlike}; no other node has room for it either"


def test_a_node_that_kube_scheduler_refused_to_it() -> None:
    world = World().nodes(node("n1", cpu=4)).start(job("a").workers(2, 9))
    world.snapshot = replace(world.snapshot, not_offered={("job-a", "n1"): world.now + 60})
    world.see(node("n1", cpu=8))
    refused = "kube-scheduler refused n1 for it a short time ago"
    assert said(world) == f"{ROOM}; {refused}; no other node has room for it either"


def test_more_room_does_not_count_where_a_job_that_waits_starts_in_it() -> None:
    """Job a would get additional room only if both jobs fitted on two nodes."""
    world = World().nodes(node("n1", cpu=4), node("n2", cpu=4)).start(job("a").workers(4, 9))
    world.submit(job("b", utility=0.001).workers(1).arrived(1))
    free = "n1 has 0 cpu free; n2 has 0 cpu free"
    assert said(world) == f"{QUEUE}; and {ROOM}; {free}; no other node has room for it either"


def test_the_limit_of_resizes() -> None:
    world = World().nodes(node("n1", cpu=4)).start(job("a").workers(2, 9)).rules(resizes_per_minute=1)
    world.snapshot = replace(world.snapshot, resizes=(world.now,))
    world.see(node("n1", cpu=8))
    assert said(world) == "the cluster's limit of 1 resize in any minute (resizes_per_minute)"


def test_its_end_is_near() -> None:
    world = World().nodes(node("n1", cpu=4)).start(job("a").workers(2, 3))
    for done in (0.1, 0.9):
        world.now += 40
        world.do(Reported("job-a", Report(world.now, done=done)))
    world.see(node("n1", cpu=8))
    assert said(world) == (
        "its end: by its reports it has 5 s left, too few to gain what a change of its workers costs"
    )


def test_a_repair_keeps_what_is_free() -> None:
    world = World().nodes(node("n1", cpu=4), node("n2", cpu=12))
    world.start(job("c").workers(2, cpu=6), job("a").workers(2, 9))
    world.see(node("n2", cpu=12, unschedulable=True))
    lost = next(pod for pod in world.snapshot.pods_of("job-c") if pod.slot == w(1))
    world.do(PodGone(lost.uid), PodSeen(world.fresh(replace(lost, node="", phase=Phase.PENDING))))
    world.see(node("n1", cpu=8))
    assert world.state("c") is State.REPAIRING
    assert said(world).startswith("a repair")
    assert "team/c" in said(world)


def test_room_that_is_being_freed() -> None:
    world = World().nodes(node("n1", cpu=10), node("n2", cpu=4)).start(job("a").workers(1, 5), job("c").workers(2, 9))
    world.submit(job("b", utility=9.0).workers(2).arrived(1))
    assert world.gang("b").waits_for
    world.see(node("n2", cpu=8))
    assert "being freed for team/b" in said(world, "c")


def test_dragons_idle_time() -> None:
    world = World(make_policy("dragon")).nodes(node("n1", cpu=4)).start(job("a").workers(2, 9, asked=2))
    world.see(node("n1", cpu=8))
    assert said(world).startswith("the idle time")
    assert "60 s" in said(world)


def test_a_gang_that_is_not_settled_grows_once_it_runs() -> None:
    world = World().nodes(node("n1", cpu=4))
    world.submit(job("a").workers(2, 9))
    first = next(iter(world.snapshot.pods_of("job-a")))
    world.hold(first.uid)
    assert said(world) == "its members: 1 of them wait to be bound"
    gang = replace(world.gang("a"), state=State.MIGRATING, deadline=None, barrier=None)
    world.snapshot = replace(world.snapshot, gangs={**world.snapshot.gangs, "job-a": gang})
    assert said(world) == "its state: it is migrating, and grows once it runs"


@pytest.mark.parametrize("name", ["fifo", "specon"])
def test_a_policy_that_resizes_nobody_says_so(name: str) -> None:
    world = World(make_policy(name)).nodes(node("n1", cpu=4)).start(job("a").workers(2, 9, asked=2))
    world.see(node("n1", cpu=8))
    assert said(world) == (
        f"the policy {name}: it keeps to the 2 workers that it has decided on, even where room is free"
    )


# -- The tests below look for hindrances to growth in generated clusters. ------------------------


def below_their_maximum(snapshot: Snapshot) -> Iterator[Job]:
    return (one for one in snapshot.running() if one.elastic and snapshot.gang(one.uid).workers < one.max_workers)


def has_room(snapshot: Snapshot, one: Job) -> bool:
    """Return whether one more worker fits on a usable node that already has members of the job."""
    hosts = set(snapshot.gang(one.uid).nodes.values())
    return any(worker_demand(snapshot, one).fits(snapshot.free(host)) for host in hosts if snapshot.nodes[host].usable)


def checked(world: World, one: Job) -> tuple[str, ...]:
    """Return the kinds of hindrance that the job is told, after checking them against free room and a world without
    queue.
    """
    text = held_back(world.snapshot, one, world.policy, world.now)
    assert FALLBACK not in text, text
    kinds = tuple(part.split(":")[0].split(" (")[0] for part in text.split("; and "))
    assert ("room" in kinds) <= (not has_room(world.snapshot, one)), text
    alone = world.snapshot
    for other in list(alone.waiting()):
        alone = without(alone, other.uid)
    if kinds[0] == "jobs that wait":
        assert grows(alone, one, world.policy, world.now) == (len(kinds) == 1), text
    return kinds


SEEDS = 10
SEEN = {
    "kod2": {("room",), ("jobs that wait",), ("jobs that wait", "room")},
    "drs": {("room",), ("jobs that wait", "room")},
    "dragon": {("room",), ("jobs that wait", "room"), ("other jobs that grow first",)},
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted(SEEN))
def test_every_job_below_its_maximum_is_told_what_holds_it(name: str) -> None:
    seen = Counter[tuple[str, ...]]()
    for seed in range(SEEDS):
        world, draw = crowded(seed, make_policy(name)), random.Random(seed)
        for _ in range(3):
            seen.update(checked(world, one) for one in list(below_their_maximum(world.snapshot)))
            running = sorted(world.snapshot.running(), key=lambda one: one.uid)
            if not running:
                break
            world.end(draw.choice(running))
            if draw.random() < 0.5:
                carry_out(world)
    assert SEEN[name] <= seen.keys(), seen


def test_in_the_demo_too() -> None:
    """Every 30 s of the demo is checked; cores stay free for job-4, and job-6 would grow before job-5."""
    policy, seen, last = make_policy("kod2"), Counter[tuple[str, ...]](), [0.0]

    def look(step: SimulatedStep, _: object) -> None:
        if step.at - last[0] < 30.0:
            return
        last[0], world = step.at, World(policy, step.at, step.snapshot, checked=False)
        seen.update(checked(world, one) for one in list(below_their_maximum(step.snapshot)))

    simulate(kod2(6), policy, on_step=look)
    assert {("jobs that wait",), ("jobs that wait", "other jobs that grow first")} <= seen.keys()
