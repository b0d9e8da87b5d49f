"""A gang that outranks another scheduler's pods waits behind them, and explain says so and names them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policy.answers.explain import explain, verdict_of
from policy.cluster.pod import Pod
from policy.cluster.reasons import Reason
from tests.builders import JobBuilder, World, guest, job, members, node

ALONE = "it would fit without pods of other schedulers that have a lower priority ({}), which Kohort does not preempt"
BESIDE = (
    "pods of other schedulers that have a lower priority ({}) hold a part of the room, and Kohort does not preempt them"
)


def other(name: str, where: str, cpu: float, priority: int = 0, **more: object) -> Pod:
    return replace(guest(name, where, cpu=cpu), priority=priority, **more)  # type: ignore[arg-type]


def outranking(world: World, of: JobBuilder, priority: int) -> str:
    """Submit a gang of that priority; return explain's sentence about its room."""
    world.see(of)
    world.see(*(replace(one, priority=priority) for one in members(of.done())))
    found = explain(world.snapshot, of.done().uid, world.policy, world.now)
    assert found is not None
    return found.arithmetic


def about_priority(text: str) -> list[str]:
    return [part for part in text.split("; ") if "priority" in part]


@pytest.mark.parametrize(
    ("gang", "pod", "told"),
    [
        (1000, 0, True),  # pods without a PriorityClass
        (0, -10, True),  # pods that keep room for others, as with a node autoscaler
        (1000, 1000, False),
        (0, 0, False),
        (0, 1000, False),
    ],
)
def test_only_pods_of_a_lower_priority_are_told_as_outranked(gang: int, pod: int, told: bool) -> None:
    world = World().nodes(node("n1", cpu=8))
    world.see(other("web", "n1", 7, pod))
    found = outranking(world, job("a").workers(2, cpu=1, memory=1), gang)
    assert about_priority(found) == ([ALONE.format("team/web")] if told else [])


def test_no_more_pods_are_named_than_must_go() -> None:
    world = World().nodes(node("n1", cpu=8), node("n2", cpu=8))
    world.see(other("small", "n1", 1), other("large", "n1", 7), other("near", "n2", 8, 2000))
    found = outranking(world, job("a").workers(3, cpu=2, memory=1), 1000)
    assert about_priority(found) == [ALONE.format("team/large")]


def test_beside_a_running_job_they_hold_a_part_of_the_room() -> None:
    world = World().nodes(node("n1", cpu=4), node("n2", cpu=4))
    world.see(other("web", "n2", 4))
    world.start(job("first").workers(2, cpu=2, memory=1))
    found = outranking(world, job("a").workers(2, cpu=4, memory=1), 1000)
    assert about_priority(found) == [BESIDE.format("team/web")]


def test_beside_pods_of_a_higher_priority_only_the_lower_ones_are_named() -> None:
    world = World().nodes(node("n1", cpu=4), node("n2", cpu=4))
    world.see(other("web", "n2", 4), other("system", "n1", 4, 2000))
    found = outranking(world, job("a").workers(2, cpu=4, memory=1), 1000)
    assert about_priority(found) == [BESIDE.format("team/web")]
    assert "pods that Kohort does not schedule hold the room: team/system on n1, team/web on n2" in found


def test_a_terminating_pod_goes_without_preemption() -> None:
    world = World().nodes(node("n1", cpu=4))
    world.see(other("web", "n1", 4, terminating=True))
    assert about_priority(outranking(world, job("a").workers(1, cpu=4, memory=1), 1000)) == []


def test_a_gang_for_which_the_cluster_is_too_small_does_not_wait_for_them() -> None:
    world = World().nodes(node("n1", cpu=4))
    world.see(other("web", "n1", 4))
    assert about_priority(outranking(world, job("a").workers(9, cpu=4, memory=1), 1000)) == []


def test_the_end_of_the_named_pods_starts_the_gang() -> None:
    world = World().nodes(node("n1", cpu=4))
    web = other("web", "n1", 4)
    world.see(web)
    assert outranking(world, job("a").workers(1, cpu=4, memory=1), 1000)
    assert not world.gang("a").admitted
    world.see(replace(world.pod("web"), node="", version=99, phase=type(web.phase).SUCCEEDED))
    assert world.gang("a").admitted


def test_a_member_of_a_running_gang_waits_behind_them_too() -> None:
    world = World().nodes(node("n1", cpu=2), node("n2", cpu=2))
    world.see(other("web", "n2", 2))
    world.start(job("a").workers(2, cpu=1, memory=1))
    more = job("a").workers(3, cpu=1, memory=1).with_(version=9).done()
    world.see(more)
    world.see(*(one for one in members(more) if one.uid not in world.snapshot.pods))
    world.see(*(replace(one, priority=1000, version=one.version + 1) for one in world.snapshot.pods_of(more.uid)))
    found = verdict_of(world.snapshot, world.snapshot.jobs[more.uid])
    assert found is not None
    assert found.reason is Reason.MEMBERS_UNPLACED
    assert about_priority(found.detail) == [ALONE.format("team/web")]
