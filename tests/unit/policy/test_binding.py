"""Why a gang has no room: the reason names the constraint without which the gang would have a place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policy.answers.change import Kind
from policy.answers.explain import explain
from policy.answers.unblock import unblock
from policy.cluster.constraints import Constraints, Taint
from policy.cluster.node import Node
from policy.cluster.reasons import Reason
from policy.cluster.resources import HOST_PORT
from policy.cluster.snapshot import reason_of
from tests.builders import JobBuilder, World, guest, job, members, node, res, taint

NPU = "example.com/npu"
UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def built(name: str, **amounts: int) -> Node:
    return node(name, allocatable=res(8, 32, **{"pods": 110, **amounts}))


def waiting(*nodes: Node, of: JobBuilder) -> tuple[Reason, str]:
    world = World().nodes(*nodes)
    world.submit(of)
    found = reason_of(world.snapshot, world.snapshot.jobs[of.made.uid])
    return found.reason, found.detail


ONE = {
    "pods on the only node": (
        [built("n1", pods=3)], job("a").workers(4, cpu=0.1, memory=0),
        "members ask for 4 pods in all, the nodes have 3 pods",
    ),
    "a device that no node has so many of": (
        [built("n1", **{NPU: 8})], job("a").workers(1, cpu=0, memory=0, **{NPU: 16}),
        f"a worker asks for 16 {NPU}, no node has more than 8 {NPU}",
    ),
    "a device that no node has": (
        [built("n1")], job("a").workers(1, **{NPU: 1}),
        f"a worker asks for 1 {NPU}, no node has more than 0 {NPU}",
    ),
    "cpu of all nodes together": (
        [built("n1"), built("n2")], job("a").workers(9, cpu=2, memory=1),
        "members ask for 18 cpu in all, the nodes have 16 cpu",
    ),
    "cpu in pieces": (
        [built("n1"), built("n2")], job("a").workers(3, cpu=5, memory=1),
        "members ask for 15 cpu in all, the nodes have 16 cpu in pieces that are too small",
    ),
    "memory of a ps": (
        [built("n1")], job("a").ps(1, memory=64).workers(1),
        "a ps asks for 64 GiB memory, no node has more than 32 GiB memory",
    ),
    "huge pages": (
        [built("n1")], job("a").workers(1, **{"hugepages-2Mi": 2**30}),
        "a worker asks for 1 GiB hugepages-2Mi, no node has more than 0 B hugepages-2Mi",
    ),
    "a host port": (
        [built("n1"), built("n2")], job("a").workers(3, cpu=1, memory=1, **{f"{HOST_PORT}TCP/8080": 1}),
        "3 members ask for host port TCP/8080, and a node has it once",
    ),
    "a taint": (
        [node("n1", taints=(taint("team", "a"),))], job("a").workers(1),
        "the taint team=a:NoSchedule of n1 is not tolerated",
    ),
    "a node selector": (
        [node("n1"), node("n2", labels={"gpu": "a100"})],
        job("a").workers(1, constraints=Constraints(node_selector=(("gpu", "h100"),))),
        "n1 does not match the gang's node selector or node affinity for gpu, "
        "n2 does not match the gang's node selector or node affinity for gpu",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "gang", "told"), ONE.values(), ids=ONE.keys())
def test_the_one_constraint_that_binds_is_told(nodes: list[Node], gang: JobBuilder, told: str) -> None:
    assert waiting(*nodes, of=gang) == (Reason.TOO_LARGE, told)


def test_figures_are_of_the_nodes_that_take_the_gang_and_rules_name_those_that_would_have_room() -> None:
    few, other, small = built("few", pods=3), built("other"), node("small", cpu=0.05)
    few = replace(few, labels={"size": "few"})
    gang = job("a").workers(4, cpu=0.1, memory=0, constraints=Constraints(node_selector=(("size", "few"),)))
    assert waiting(few, other, small, of=gang) == (
        Reason.TOO_LARGE,
        "members ask for 4 pods in all, the nodes open to it have 3 pods; "
        "or other does not match the gang's node selector or node affinity for size",
    )


def test_of_two_constraints_that_bind_both_are_told() -> None:
    gang = job("a").ps(1, cpu=4).workers(3, cpu=4, memory=1)
    assert waiting(built("n1", pods=3), of=gang) == (
        Reason.TOO_LARGE,
        "members ask for 16 cpu in all, the nodes have 8 cpu; and members ask for 4 pods in all, the nodes have 3 pods",
    )


@pytest.mark.parametrize(("priority", "told"), [(7, True), (5, False)])
def test_pods_that_a_gang_outranks_and_does_not_preempt_are_told(priority: int, told: bool) -> None:
    other, small = replace(guest("other", "n1", cpu=8), priority=5), replace(guest("another", "n2"), priority=5)
    world = World().nodes(built("n1"), node("n2", cpu=2))
    world.see(other, small)
    gang = job("a").workers(2)
    world.see(gang)
    world.see(*(replace(member, priority=priority) for member in members(gang.done())))
    found = explain(world.snapshot, "job-a", world.policy, world.now)
    assert found is not None
    assert found.waits is not None
    assert found.waits.reason == Reason.ROOM_OF_OTHERS.value
    assert ("lower priority (team/other), which Kohort does not preempt" in found.arithmetic) is told


@pytest.mark.parametrize(
    "key",
    [
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.cloudprovider.kubernetes.io/uninitialized",
    ],
)
def test_a_taint_that_kubernetes_sets_closes_the_node_for_a_time(key: str) -> None:
    world = World().nodes(node("n1", taints=(taint(key),)), node("n2", cpu=1))
    world.submit(job("a").workers(2))
    found = reason_of(world.snapshot, world.snapshot.jobs["job-a"])
    assert (found.reason, found.detail) == (Reason.NODES_CLOSED, f"the taint {key}:NoSchedule of n1 is not tolerated")
    world.see(replace(node("n1"), version=2))
    assert world.gang("a").admitted


def test_a_taint_of_somebodys_own_asks_for_a_change() -> None:
    reserved = node("n1", taints=(taint("example.com/node.kubernetes.io"),))
    assert waiting(reserved, of=job("a").workers(2))[0] is Reason.TOO_LARGE


def test_a_cluster_without_nodes_is_told_as_one() -> None:
    assert waiting(of=job("a").workers(1)) == (Reason.TOO_LARGE, "there is no node that takes pods")


CLOSED = {
    "cordoned": (replace(node("n1"), unschedulable=True, taints=(UNSCHEDULABLE,)), "n1 is cordoned"),
    "not ready": (
        replace(node("n1"), ready=False, taints=(taint("node.kubernetes.io/not-ready"),)),
        "n1 is not ready",
    ),
}


@pytest.mark.parametrize(("closed", "told"), CLOSED.values(), ids=CLOSED.keys())
def test_a_gang_that_fits_only_on_closed_nodes_is_not_too_large(closed: Node, told: str) -> None:
    small = node("n2", cpu=1)
    assert waiting(closed, small, of=job("a").workers(2)) == (Reason.NODES_CLOSED, told)
    world = World().nodes(closed, small)
    world.submit(job("a").workers(2))
    world.see(replace(closed.reopened, version=2))
    assert world.gang("a").admitted


def test_to_uncordon_is_advice_where_the_node_has_the_taint_of_a_cordon() -> None:
    world = World().nodes(CLOSED["cordoned"][0], node("n2", cpu=1))
    world.submit(job("a").workers(2))
    found = unblock(world.snapshot, "job-a", world.policy, world.now)
    assert (Kind.UNCORDON, "uncordon node n1") in [(change.kind, change.text) for change in found]


def test_a_reopened_node_keeps_the_taints_that_people_set() -> None:
    own = taint("team", "a")
    assert replace(node("n1"), unschedulable=True, taints=(UNSCHEDULABLE, own)).reopened.taints == (own,)


def test_what_binds_now_is_told_where_the_gang_waits_for_room() -> None:
    world = World().nodes(built("n1", pods=3)).start(job("first").workers(2, cpu=0.1, memory=0))
    world.submit(job("a").workers(3, cpu=0.1, memory=0))
    told = explain(world.snapshot, "job-a", world.policy, world.now)
    assert told is not None
    assert told.waits is not None
    assert told.waits.reason == Reason.NO_ROOM.value
    assert "members ask for 3 pods in all, the nodes have 1 pod free" in told.arithmetic
    assert "comes closest to holding the whole gang alone and lacks 2 pods" in told.arithmetic
