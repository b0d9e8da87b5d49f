"""Fields of a pod's spec that kube-scheduler's plugins check: the translator finds each one, alone."""

from __future__ import annotations

from typing import Any

import pytest

from extender.kube.pods import read_pod
from extender.kube.unchecked import REQUIRED, WITHOUT_NODE
from policy.placement.plugins import FIELDS

TERM: dict[str, Any] = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": TERM}]}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
RULE = {"action": "RestartAllContainers"}


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "a", **fields}]}


USED: dict[str, tuple[dict[str, Any], str]] = {
    "a host port": (container(ports=[{"hostPort": 80}]), "hostPort"),
    "the host's network": ({"hostNetwork": True} | container(ports=[{"containerPort": 80}]), "hostPort"),
    "a volume claim": ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "volumes"),
    "an ephemeral claim": ({"volumes": [{"name": "v", "ephemeral": {}}]}, "volumes"),
    "a path of the node": ({"volumes": [{"name": "v", "hostPath": {"path": "/data"}}]}, "volumes"),
    "a volume of a driver": ({"volumes": [{"name": "v", "csi": {"driver": "d"}}]}, "volumes"),
    "volumes that are no list": ({"volumes": "none"}, "volumes"),
    "a hard spread": ({"topologySpreadConstraints": [SPREAD]}, "topologySpreadConstraints"),
    "affinity to pods": ({"affinity": {"podAffinity": {REQUIRED: [TERM]}}}, "affinity.podAffinity"),
    "anti-affinity to pods": ({"affinity": {"podAntiAffinity": {REQUIRED: [TERM]}}}, "affinity.podAntiAffinity"),
    "an affinity that cannot be read": ({"affinity": []}, "affinity.podAffinity"),
    "a resource claim": ({"resourceClaims": [{"name": "gpu"}]}, "resourceClaims"),
    "a device class": (
        container(resources={"requests": {"deviceclass.resource.kubernetes.io/gpu": 1}}), "a device class",
    ),
    "a foreign gate": ({"schedulingGates": [{"name": "other"}]}, "schedulingGates"),
    "a group of kube-scheduler's": ({"schedulingGroup": {"podGroupName": "g"}}, "schedulingGroup"),
    "restart of all containers": (container(restartPolicyRules=[RULE]), "restartPolicyRules"),
    "a user namespace on the host's network": ({"hostUsers": False, "hostNetwork": True}, "hostUsers"),
    "options of a mount": (container(volumeMounts=[{"bindMountOptions": ["noexec"]}]), "bindMountOptions"),
    "bandwidth of the network": (
        container(resources={"requests": {"kohort.dev/network-bandwidth": 1000}}), "a request of network bandwidth",
    ),
    "unreadable requests": (container(resources={"requests": {"cpu": "much"}}), "requests that cannot be read"),
}  # fmt: skip
UNUSED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "volumes without a node": {
        "volumes": [{"name": kind, kind: {}} for kind in sorted(WITHOUT_NODE)] + [{"name": "v"}]
    },
    "a port of the container": container(ports=[{"containerPort": 80}]),
    "a soft spread": {"topologySpreadConstraints": [SPREAD | {"whenUnsatisfiable": "ScheduleAnyway"}]},
    "preferences": {"affinity": {"podAffinity": PREFERRED, "podAntiAffinity": PREFERRED}},
    "affinity to nodes": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}},
    "Kohort's own gate": {"schedulingGates": [{"name": "kohort.dev/admission"}]},
    "users of the host": {"hostUsers": True, "hostNetwork": True},
    "a user namespace alone": {"hostUsers": False},
    "no claims and no group": {"resourceClaims": None, "schedulingGroup": None},
}


def read(spec: dict[str, Any], **more: Any) -> Any:
    meta = {"name": "p", "uid": "u", "namespace": "team"}
    return read_pod({"metadata": meta, "spec": {"schedulerName": "kohort", **container(), **spec, **more}}, "kohort")


@pytest.mark.parametrize(("spec", "field"), USED.values(), ids=USED.keys())
def test_a_field_in_use_is_found(spec: dict[str, Any], field: str) -> None:
    assert field in read(spec).unchecked
    assert set(read(spec).unchecked) <= FIELDS


def test_every_field_of_the_table_can_be_found() -> None:
    assert {field for _, field in USED.values()} == FIELDS


@pytest.mark.parametrize("spec", UNUSED.values(), ids=UNUSED.keys())
def test_what_no_plugin_looks_at_is_not_found(spec: dict[str, Any]) -> None:
    assert read(spec).unchecked == ()


def test_bound_pods_and_pods_of_others_are_not_looked_at() -> None:
    spec = {"volumes": [{"name": "v", "hostPath": {}}]}
    assert read(spec, nodeName="n1").unchecked == read(spec, schedulerName="other").unchecked == ()


REPELS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "its own namespace": ([TERM], ("team",)),
    "others by name": ([TERM | {"namespaces": ["b", "a"]}], ("a", "b")),
    "any by labels": ([TERM, TERM | {"namespaceSelector": {}}], ("*",)),
    "none": ([], ()),
    "terms that cannot be read": ("none", ("*",)),
    "namespaces that cannot be read": ([TERM | {"namespaces": [1]}], ("*",)),
}


@pytest.mark.parametrize(("terms", "want"), REPELS.values(), ids=REPELS.keys())
@pytest.mark.parametrize("of", ["kohort", "other"])
def test_the_namespaces_of_a_required_anti_affinity_are_read_of_every_pod(terms: Any, want: Any, of: str) -> None:
    spec = {"affinity": {"podAntiAffinity": {REQUIRED: terms}}}
    assert read(spec, schedulerName=of).repels == read(spec, schedulerName=of, nodeName="n1").repels == want


def test_a_preferred_anti_affinity_repels_nobody() -> None:
    assert read({"affinity": {"podAntiAffinity": PREFERRED}}).repels == ()
