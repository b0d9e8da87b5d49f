"""Which gangs may be bound at their first bind call: each obstacle in the table of plugins, present and absent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policy.answers.explain import explain
from policy.cluster.constraints import Constraints
from policy.cluster.pod import Phase, Pod
from policy.placement.eligible import in_the_way, looked_at
from policy.placement.plugins import FIELDS, PLUGINS, plugins_at
from policy.systems.kod2 import Kod2
from tests.builders import PodGone, World, guest, job, node, pod, ps, taint, w

GANG = job("a").ps().workers(2)
POOL = Constraints(node_selector=(("pool", "gpu"),))


def planned(*nodes: Any, gang: Any = GANG, **rules: Any) -> World:
    world = World().rules(commit_first=True, **rules).nodes(*(nodes or ("n1", "n2")))
    world.submit(gang)
    return world


def with_places(world: World) -> World:
    """Give the members of job a the empty node constraints that the translator reads from pods that may go anywhere."""
    world.see(*(replace(one, places=Constraints()) for one in world.snapshot.pods_of("job-a")))
    return world


def obstacle(world: World) -> str:
    return in_the_way(world.snapshot, world.gang("a"))


def test_a_gang_of_plain_pods_is_bound_at_once() -> None:
    world = with_places(planned())
    assert looked_at(world.snapshot, "job-a") == obstacle(world) == ""


@pytest.mark.parametrize("field", sorted(FIELDS))
def test_a_field_at_which_a_plugin_looks_is_in_the_way_and_names_the_plugin(field: str) -> None:
    world = with_places(planned())
    world.see(replace(world.snapshot.pods["uid-a-worker-1"], unchecked=(field,)))
    assert looked_at(world.snapshot, "job-a") == obstacle(world)
    assert f"worker-1 has {field}" in obstacle(world)
    assert all(name in obstacle(world) for name in plugins_at(field))
    assert plugins_at(field)


def test_every_default_plugin_of_kube_scheduler_is_in_the_table() -> None:
    """The list is that of Kubernetes 1.37, in pkg/scheduler: apis/config/v1/default_plugins.go,
    framework/plugins/names.
    """
    assert PLUGINS.keys() == {
        "PrioritySort", "DefaultBinder", "DefaultPreemption", "DynamicResources", "GangScheduling", "ImageLocality",
        "InterPodAffinity", "NodeAffinity", "NodeDeclaredFeatures", "NodeName", "NodePorts",
        "NodeResourcesBalancedAllocation", "NodeResourcesFit", "NodeUnschedulable", "NodeVolumeLimits",
        "PodTopologySpread", "DeferredPodScheduling", "SchedulingGates", "TaintToleration", "VolumeBinding",
        "VolumeRestrictions", "VolumeZone", "TopologyPlacementGenerator", "PodGroupPodsCount",
    }  # fmt: skip


def test_a_plugin_that_kohort_does_not_know_is_in_the_way_of_every_gang() -> None:
    world = with_places(planned(plugins=("GangScheduling", "Mine")))
    assert obstacle(world) == "kube-scheduler has the plugin Mine, which Kohort does not know"
    assert not obstacle(world.rules(plugins=("GangScheduling",)))


@pytest.mark.parametrize(("repels", "hinders"), [(("team",), True), (("*",), True), (("other",), False)])
@pytest.mark.parametrize("where", ["n2", ""])
def test_another_pods_anti_affinity_is_in_the_way_in_its_namespaces(
    repels: tuple[str, ...], hinders: bool, where: str
) -> None:
    """Such a pod counts before it is bound, too, because kube-scheduler may have nominated it."""
    world = with_places(planned())
    other = replace(guest("lonely", where), repels=repels, phase=Phase.RUNNING if where else Phase.PENDING)
    world.see(other)
    assert bool(obstacle(world)) is hinders
    assert ("pod lonely has a required anti-affinity" in obstacle(world)) is hinders
    world.see(replace(other, phase=Phase.SUCCEEDED))
    assert not obstacle(world)


def test_an_anti_affinity_is_forgotten_with_its_pod() -> None:
    world = with_places(planned())
    world.see(replace(guest("lonely", "n2"), repels=("team",)))
    assert obstacle(world)
    world.do(PodGone("uid-lonely"))
    assert not obstacle(world)


def test_a_pod_of_another_namespace_is_not_named() -> None:
    world = with_places(planned())
    world.see(replace(guest("secret", "n2"), namespace="hidden", repels=("*",)))
    assert obstacle(world).startswith("a pod of another namespace has a required anti-affinity")


def test_explain_says_why_each_member_is_checked() -> None:
    world = with_places(planned())
    world.see(replace(world.snapshot.pods["uid-a-worker-1"], unchecked=("volumes",)))
    told = explain(world.snapshot, "job-a", Kod2(), world.now)
    assert told is not None
    assert told.checked_singly.startswith("worker-1 has volumes, which kube-scheduler checks (VolumeRestrictions and ")
    told = explain(world.rules(commit_first=False).snapshot, "job-a", Kod2(), world.now)
    assert told is not None
    assert told.checked_singly == ""


def test_a_pod_whose_constraints_cannot_be_read_is_in_the_way() -> None:
    world = with_places(planned())
    world.see(replace(world.snapshot.pods["uid-a-ps-0"], places=None))
    assert "ps-0 has a node selector, an affinity or tolerations that cannot be read" in obstacle(world)


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "gated": ({"gated": True}, "worker-1 still has its scheduling gate"),
    "terminating": ({"terminating": True}, "worker-1 has no pod yet"),
    "failed": ({"phase": Phase.FAILED}, "worker-1 has no pod yet"),
    "of another scheduler": ({"opted_in": False}, "the pod of worker-1 does not have Kohort's schedulerName"),
    "choosy": ({"places": POOL}, "keep worker-1 off it"),
}


@pytest.mark.parametrize(("change", "words"), CHANGES.values(), ids=CHANGES.keys())
def test_every_member_must_be_ready_to_be_bound(change: dict[str, Any], words: str) -> None:
    world = with_places(planned())
    gang, late = world.gang("a"), replace(world.snapshot.pods["uid-a-worker-1"], version=9, **change)
    pods = {**world.snapshot.pods, late.uid: late}
    assert words in in_the_way(replace(world.snapshot, pods=pods), gang)


def test_a_planned_member_without_a_pod_is_in_the_way() -> None:
    world = World().rules(commit_first=True).nodes("n1")
    elastic = job("a").ps().workers(1, 2, asked=2)
    world.submit(elastic)
    with_places(world)
    assert not obstacle(world)
    world.do(PodGone("uid-a-worker-1"))
    assert obstacle(world) == "worker-1 has no pod yet"


NODES: dict[str, tuple[dict[str, Any], str]] = {
    "cordoned": ({"unschedulable": True}, "node n1 takes no pods now"),
    "not ready": ({"ready": False}, "node n1 takes no pods now"),
    "tainted": ({"taints": (taint("gpu"),)}, "the taints or labels of node n1 keep ps-0 off it"),
    "smaller": (
        {"allocatable": node("n1", cpu=2).allocatable},
        "node n1 has no room for all pods that are planned there",
    ),
}


@pytest.mark.parametrize(("change", "words"), NODES.values(), ids=NODES.keys())
def test_every_planned_node_must_take_its_members_now(change: dict[str, Any], words: str) -> None:
    """The node's taints and labels may have changed since it was planned, and no plugin checks them at a first bind."""
    world = with_places(planned("n1"))
    changed = replace(world.snapshot.nodes["n1"], **change)
    assert in_the_way(replace(world.snapshot, nodes={"n1": changed}), world.gang("a")) == words


def test_a_deployment_with_surplus_pods_waits_for_the_barrier() -> None:
    made = job("a", kind="Deployment", unnumbered=True).workers(1, 3, asked=2)
    world = World().rules(commit_first=True).nodes(node("n1", cpu=2))
    world.submit(made)
    with_places(world)
    assert len(world.gang("a").nodes) == 1
    assert "the job has more pods than planned" in obstacle(world)


def test_a_bound_member_does_not_matter() -> None:
    world = with_places(planned())
    first = world.snapshot.pods["uid-a-ps-0"]
    world.see(replace(first, node=world.plan("a")["ps-0"], unchecked=("volumes",), phase=Phase.RUNNING))
    assert not obstacle(world)


def test_a_replaced_pod_that_still_runs_is_in_the_way() -> None:
    world = with_places(planned())
    old: Pod = pod("a-old", GANG.done(), w(0), node="n1", phase=Phase.RUNNING, version=1)
    world.see(replace(old, terminating=True, since=1.0))
    assert ps() in world.gang("a").nodes
    assert "the replaced pod a-old still holds room" in obstacle(world)
