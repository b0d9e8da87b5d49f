"""The verdict of kube-scheduler's own plugins on pairs: a stock kube-scheduler without Kohort schedules their pods."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.controlplane import ControlPlane, ControlPlaneError
from tests.controlplane.kohort import shipped
from tests.e2e.waiting import until
from tests.eligibility.draw import FOREIGN, HOSTNAME, NAMESPACES, OVERHEADS, PRIORITIES, SCHEDULER, Json, Pair
from tests.eligibility.ours import Seen

HANDS: Final = 4  # objects that are created at the same time
PER_PAIR_SECONDS: Final = 0.5  # how long kube-scheduler may take for a pair, at most
CLIENT: Final = {"qps": 1000, "burst": 2000}
NODES: Final = "/api/v1/nodes"
VOLUMES: Final = "/api/v1/persistentvolumes"
PLACES: Final = {
    "Pod": ("/api/v1", "pods"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "ResourceClaim": ("/apis/resource.k8s.io/v1", "resourceclaims"),
}
"""The API group's path and the collection's name, by kind."""
PLUGINS: Final = {
    "NodeResourcesFit": r"Insufficient|Too many pods",
    "TaintToleration": r"untolerated taint",
    "NodeUnschedulable": r"were unschedulable",
    "NodeAffinity": r"didn't match Pod's node affinity",
    "NodePorts": r"didn't have free ports",
    "VolumeBinding": r"persistentvolumeclaim|volume node affinity|PersistentVolume",
    "PodTopologySpread": r"topology spread",
    "InterPodAffinity": r"affinity rules",
    "DynamicResources": r"resourceclaim|device class",
    "NodeDeclaredFeatures": r"required features",
    "SchedulingGates": r"gated|gates",
}
"""The plugins, by what kube-scheduler writes when one of them refuses a node."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A pair with kube-scheduler's verdict: ``refusal`` is its message, or empty if it has bound the pod."""

    pair: Pair
    seen: Seen
    refusal: str

    @property
    def plugins(self) -> frozenset[str]:
        """The plugins that refused the pair's node, by kube-scheduler's message.

        They are known only for a pod that names its node. For one that selects it by a label, the message counts what
        is wrong with all nodes together.
        """
        if HOSTNAME in self.pair.spec.get("nodeSelector", {}):
            return frozenset()
        return frozenset(name for name, words in PLUGINS.items() if re.search(words, self.refusal))


def judged(plane: ControlPlane, drawn: Sequence[Pair]) -> tuple[list[Judged], dict[str, str]]:
    """Create the pairs, start a kube-scheduler, and return its verdicts once it has decided on each pod.

    The control plane must have no kube-scheduler and no nodes yet. The second result has the pairs' names whose pod the
    API server has refused, with its words; such pairs have no verdict.
    """
    _prepare(plane)
    refused = _create(plane, drawn)
    left = [pair for pair in drawn if pair.name not in refused]
    seen = _seen(plane, left)
    scheduler = plane.start_scheduler(_configuration(plane), SCHEDULER)
    limit = 30 + PER_PAIR_SECONDS * len(left)
    until(lambda: not _open(plane), "a verdict on each pod", limit, lambda: _open(plane)[:5], lambda: time.sleep(1))
    scheduler.stop()
    pods = _pods(plane)
    return [Judged(pair, seen[pair.name], _refusal(pods[pair.name])) for pair in left], refused


def _configuration(plane: ControlPlane) -> Path:
    """Return the file of a configuration with Kohort's own profile, but without its extender."""
    config = shipped("kohort-scheduler-config", "kube-scheduler.yaml")
    [profile] = config["profiles"]
    profiles = [profile | {"schedulerName": name} for name in (SCHEDULER, FOREIGN)]
    path = plane.workdir / "pairs.yaml"
    made = {"leaderElection": {"leaderElect": False}, "clientConnection": CLIENT, "profiles": profiles}
    path.write_text(yaml.safe_dump(made))
    return path


# -- objects ---------------------------------------------------------------------------------------


def _prepare(plane: ControlPlane) -> None:
    """Create what all pairs share: namespaces, priorities and RuntimeClasses."""
    for name in NAMESPACES:
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    for name, value in PRIORITIES.items():
        plane.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value})
    for name, more in OVERHEADS.items():
        plane.api.create("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": name}, "handler": name, **more})


def _create(plane: ControlPlane, drawn: Sequence[Pair]) -> dict[str, str]:
    """Create every object of the pairs; return the names of those whose pod is refused, with the API server's words."""

    def create(pair: Pair) -> str:
        for node in pair.nodes:
            plane.api.create(NODES, node)
        for volume in pair.volumes:
            _with_status(plane, _path_of(volume), volume)
        for other in pair.others:
            _with_status(plane, _path_of(other), other)
        try:
            plane.api.create(_path_of(pair.pod), pair.pod)
        except ControlPlaneError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(HANDS) as hands:
        told = list(hands.map(create, drawn))
    return {pair.name: words for pair, words in zip(drawn, told, strict=True) if words}


def _path_of(item: Json) -> str:
    """Return the path of the item's collection."""
    if item["kind"] == "PersistentVolume":
        return VOLUMES
    group, plural = PLACES[item["kind"]]
    return f"{group}/namespaces/{item['metadata']['namespace']}/{plural}"


def _with_status(plane: ControlPlane, path: str, item: Json) -> None:
    """Create the item, write its status, and delete it if it is to be terminating."""
    made = deepcopy(item)
    status, ends = made.pop("status", None), made["metadata"].pop("deletionTimestamp", None)
    where = f"{path}/{made['metadata']['name']}"
    plane.api.create(path, made)
    if status:
        plane.api.patch(f"{where}/status", {"status": status})
    if ends:
        plane.api.delete(where)


def _pods(plane: ControlPlane, **query: str) -> dict[str, Json]:
    """Return the pods of all pairs by name."""
    paths = (f"/api/v1/namespaces/{name}/pods" for name in NAMESPACES)
    found = (pod for path in paths for pod in plane.api.get(path, **query)["items"])
    return {pod["metadata"]["name"]: pod for pod in found}


def _seen(plane: ControlPlane, drawn: Iterable[Pair]) -> dict[str, Seen]:
    """Return the objects of each pair, as the API server has them."""
    nodes = {node["metadata"]["name"]: node for node in plane.api.get(NODES)["items"]}
    pods = _pods(plane)
    return {
        pair.name: Seen(
            tuple(nodes[node["metadata"]["name"]] for node in pair.nodes),
            tuple(pods[other["metadata"]["name"]] for other in pair.others),
            pods[pair.name],
        )
        for pair in drawn
    }


# -- verdicts --------------------------------------------------------------------------------------


def _open(plane: ControlPlane) -> list[str]:
    """Return the names of the pods on which kube-scheduler has not decided yet."""
    unbound = _pods(plane, fieldSelector=f"spec.nodeName=,spec.schedulerName={SCHEDULER}")
    return [name for name, pod in unbound.items() if not _condition(pod)]


def _condition(pod: Json) -> Json:
    """Return the condition PodScheduled of a pod if it is False; empty otherwise."""
    conditions: list[Json] = pod.get("status", {}).get("conditions", [])
    return next((one for one in conditions if (one["type"], one["status"]) == ("PodScheduled", "False")), {})


def _refusal(pod: Json) -> str:
    """Return why kube-scheduler has not bound the pod; empty if it has."""
    if pod["spec"].get("nodeName"):
        return ""
    told: Any = _condition(pod)
    return f"{told['reason']}: {told.get('message', '')}"
