"""The embedded scheduler's plugins: which nodes take a pod, how many nodes are looked at, and the scores."""

from __future__ import annotations

import pytest

from extender.kube.api import Json
from lab.embedded.cache import PodInfo, SchedulerCache, pod_info
from lab.embedded.plugins import how_many_to_find, refuses, score
from policy.cluster.node import Node


def node(name: str, **spec: object) -> Json:
    given = {"cpu": "10", "memory": "32Gi", "pods": "110"}
    return {"metadata": {"name": name, "labels": {"zone": "a"}}, "spec": spec, "status": {"allocatable": given}}


def pod(name: str, cpu: str = "1", at: str = "", nominated: str = "", **spec: object) -> PodInfo:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    meta = {"name": name, "namespace": "default", "uid": name}
    status = {"nominatedNodeName": nominated}
    return pod_info({"metadata": meta, "spec": {"containers": [container], "nodeName": at, **spec}, "status": status})


def cached(*pods: PodInfo, **spec: object) -> tuple[SchedulerCache, Node]:
    cache = SchedulerCache()
    found = cache.set_node(node("node", **spec))
    for one in pods:
        cache.set_pod(one)
    return cache, found


REFUSALS = {
    "it fits": (cached(), pod("new"), ("", "")),
    "cordoned": (cached(unschedulable=True), pod("new"), ("NodeUnschedulable", "node(s) were unschedulable")),
    "a taint": (
        cached(taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]),
        pod("new"),
        ("TaintToleration", "node(s) had untolerated taint(s)"),
    ),
    "another zone": (
        cached(),
        pod("new", nodeSelector={"zone": "b"}),
        ("NodeAffinity", "node(s) didn't match Pod's node affinity/selector"),
    ),
    "bound pods take room": (
        cached(pod("a", "5", at="node"), pod("b", "5", at="node")),
        pod("new"),
        ("NodeResourcesFit", "Insufficient cpu"),
    ),
    "a nominated pod holds room": (
        cached(pod("a", "10", nominated="node")),
        pod("new"),
        ("NodeResourcesFit", "Insufficient cpu"),
    ),
    "a nominated pod of less priority holds none": (
        cached(pod("a", "10", nominated="node")),
        pod("new", priority=1),
        ("", ""),
    ),
    "its own nomination is no rival": (cached(pod("new", "10", nominated="node")), pod("new", "10"), ("", "")),
}


@pytest.mark.parametrize(("cluster", "new", "want"), REFUSALS.values(), ids=REFUSALS.keys())
def test_refuses(cluster: tuple[SchedulerCache, Node], new: PodInfo, want: tuple[str, str]) -> None:
    assert refuses(cluster[0], new, cluster[1]) == want


def test_an_assumed_pod_takes_room_until_it_is_forgotten() -> None:
    cache, found = cached()
    cache.assume(pod("a", "10"), "node")
    assert refuses(cache, pod("new"), found)[0] == "NodeResourcesFit"
    assert cache.forget("a")
    assert refuses(cache, pod("new"), found) == ("", "")


def test_the_watch_confirms_an_assumed_pod_and_it_counts_once() -> None:
    cache, _ = cached()
    cache.assume(pod("a", "4"), "node")
    cache.set_pod(pod("a", "4", at="node"))
    assert not cache.assumed("a")
    assert cache.used("node")["cpu"] == 4000


@pytest.mark.parametrize(
    ("nodes", "percentage", "want"),
    [(99, 0, 99), (300, 0, 144), (300, 100, 300), (300, 10, 100), (10_000, 0, 500), (300, 50, 150)],
)
def test_how_many_to_find(nodes: int, percentage: int, want: int) -> None:
    """One case was measured: a real kube-scheduler looked for 144 feasible nodes on 300 nodes."""
    assert how_many_to_find(nodes, percentage) == want


def test_the_emptier_node_scores_higher() -> None:
    cache, found = cached()
    empty = score(cache, pod("new"), found)
    cache.set_pod(pod("a", "5", at="node"))
    assert score(cache, pod("new"), found) < empty
