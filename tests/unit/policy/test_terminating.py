"""Pods that terminate and do not go are named in every reason, with the finalizers that keep them."""

from __future__ import annotations

from dataclasses import replace

from policy.answers.explain import verdict_of
from policy.cluster.pod import Pod
from policy.cluster.reasons import Reason, Verdict
from policy.desired import desired
from tests.builders import PodGone, State, World, job, members, node

FINALIZER = "example.com/backup"
GANG = job("a", suspends=True).workers(2, cpu=3)


def kept(pod: Pod) -> Pod:
    return replace(pod, terminating=True, finalizers=(FINALIZER,))


def told(world: World, name: str = "a") -> Verdict | None:
    return verdict_of(world.snapshot, world.snapshot.jobs[f"job-{name}"])


def test_a_waiting_gang_whose_old_member_does_not_go() -> None:
    world = World().nodes("n1")
    first, second = members(GANG.done())
    world.see(GANG, first, kept(second))
    assert told(world) == Verdict(
        Reason.WAITING_FOR_PODS, f"worker 1 of 2; team/a-worker-1 is terminating, kept by its finalizer {FINALIZER}"
    )
    world.do(PodGone(second.uid))
    world.see(world.fresh(second))
    assert world.gang("a").admitted


def test_a_running_gang_whose_member_does_not_go() -> None:
    world = World().nodes("n1").start(GANG)
    world.see(kept(world.pod("a-worker-1")))
    assert told(world) == Verdict(
        Reason.WAITING_FOR_PODS,
        f"worker 1 of 2; team/a-worker-1 on n1 is terminating, kept by its finalizer {FINALIZER}",
    )


def test_a_gang_that_is_released_names_the_member_that_does_not_go() -> None:
    world = World().nodes("n1").start(job("a").workers(3, cpu=2))
    world.do(PodGone("uid-a-worker-2"))
    world.pass_time(world.snapshot.rules.repair_seconds + 1)
    assert world.state("a") is State.RELEASING
    first, second = (order.uid for order in desired(world.snapshot, 500).release)
    world.do(PodGone(first))
    world.see(kept(world.snapshot.pods[second]))
    name = world.snapshot.pods[second].key
    assert told(world) == Verdict(Reason.RELEASING, f"{name} on n1 is terminating, kept by its finalizer {FINALIZER}")


def test_a_gang_whose_room_is_being_freed_names_the_pod_that_does_not_go() -> None:
    world = World().nodes(node("n1", cpu=4)).start(job("light").workers(1, 4, asked=4, cpu=1, memory=1))
    world.submit(job("heavy", utility=100.0).workers(2, cpu=1, memory=1))
    assert told(world, "heavy") == Verdict(Reason.ROOM_BEING_FREED, "2 pods must go first")
    world.see(kept(world.pod("light-worker-3")))
    assert told(world, "heavy") == Verdict(
        Reason.ROOM_BEING_FREED,
        f"2 pods must go first; team/light-worker-3 on n1 is terminating, kept by its finalizer {FINALIZER}",
    )
