"""kohort render: the shipped manifests with one cluster's versions and addresses, as kubectl would build them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import Result

from extender.install.kustomization import FILE, ManifestError, build, merged

Run = Callable[..., Result]


def images(objects: list[dict[str, Any]]) -> dict[str, str]:
    (pod,) = (one["spec"]["template"]["spec"] for one in objects if one["kind"] == "Deployment")
    return {container["name"]: container["image"] for container in pod["containers"]}


def test_yaml_and_json_have_the_versions_and_the_image(kohort: Run) -> None:
    args = ("render", "--image", "REGISTRY/kohort:9", "--kubernetes-version", "1.37.4")
    objects = list(yaml.safe_load_all(kohort(*args).stdout))
    found = images(objects)
    assert found.pop("kube-scheduler").endswith("/kube-scheduler:v1.37.4")
    assert set(found.values()) == {"REGISTRY/kohort:9"}
    assert json.loads(kohort(*args, "-o", "json").stdout) == {"apiVersion": "v1", "kind": "List", "items": objects}


def test_unless_told_images_are_those_of_this_version(kohort: Run) -> None:
    found = images(list(yaml.safe_load_all(kohort("render").stdout)))
    assert found["kube-scheduler"].endswith("/kube-scheduler:v1.37.2")
    assert {found["extender"], found["controller"]} == {"kohort:0.1.0"}


@pytest.mark.parametrize("overlay", ["base", "shared-scheduler", "development"])
def test_an_older_cluster_gets_nothing_that_it_does_not_have(kohort: Run, overlay: str) -> None:
    newer, older = (
        list(yaml.safe_load_all(kohort("render", overlay, "--kubernetes-version", version).stdout))
        for version in ("1.36.0", "1.35.4")
    )
    gone = [one["kind"] for one in newer if name_of(one) not in set(map(name_of, older))]
    assert sorted(gone) == ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"]
    assert [settings(found)["gate"] for found in (newer, older)] == ["when-queued", "never"]


def name_of(item: dict[str, Any]) -> tuple[str, str]:
    return item["kind"], item["metadata"]["name"]


def settings(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = (one for one in objects if name_of(one) == ("ConfigMap", "kohort-settings"))
    return dict(yaml.safe_load(found["data"]["kohort.yaml"]))


@pytest.mark.parametrize(
    ("told", "image"),
    [
        ("v1.37.2-eks-8cce635", "v1.37.2"),  # as EKS writes a version
        ("v1.37.0-gke.1000", "v1.37.0"),  # as GKE writes a version
        ("v1.37.2+k3s1", "v1.37.2"),
        ("v1.36.11+rke2r1", "v1.36.11"),
        ("v1.35.4+a1b2c3d", "v1.35.4"),  # as OpenShift writes a version
        ("v1.36.3-aliyun.1", "v1.36.3"),
        ("1.37.0-rc.1", "v1.37.0"),
        ("v1.37.2-3+53fecd36bc2dd2", "v1.37.2"),  # as microk8s writes a version
        (" v1.36.1-vke.2\n", "v1.36.1"),
    ],
)
def test_a_version_is_read_as_vendors_write_it(kohort: Run, told: str, image: str) -> None:
    found = images(list(yaml.safe_load_all(kohort("render", "--kubernetes-version", told).stdout)))
    assert found["kube-scheduler"].endswith(f"/kube-scheduler:{image}")


def test_a_component_is_added(kohort: Run) -> None:
    found = list(yaml.safe_load_all(kohort("render", "--component", "progress").stdout))
    assert ("Service", "kohort-progress") in {(one["kind"], one["metadata"]["name"]) for one in found}
    (pod,) = (one["spec"]["template"]["spec"] for one in found if one["kind"] == "Deployment")
    extender = next(one for one in pod["containers"] if one["name"] == "extender")
    assert {port["containerPort"] for port in extender["ports"]} == {8901, 8903}


@pytest.mark.parametrize("overlay", ["base", "shared-scheduler", "development"])
def test_components_are_added_to_every_overlay(kohort: Run, overlay: str) -> None:
    found = list(yaml.safe_load_all(kohort("render", overlay, "--component", "api", "--component", "progress").stdout))
    assert {("Service", "kohort"), ("ClusterRole", "kohort-view")} <= {
        (one["kind"], one["metadata"]["name"]) for one in found
    }
    (pod,) = (one["spec"]["template"]["spec"] for one in found if one["kind"] == "Deployment")
    extender = next(one for one in pod["containers"] if one["name"] == "extender")
    assert {8901, 8903, 8905} <= {port["containerPort"] for port in extender["ports"]}
    assert {"KOHORT_API__ENABLED", "KOHORT_PROGRESS__ENABLED"} <= {one["name"] for one in extender["env"]}


def test_the_address_goes_into_the_configuration_of_the_clusters_own_scheduler(kohort: Run) -> None:
    found = yaml.safe_load(kohort("render", "shared-scheduler", "--scheduler-address", "10.0.0.9").stdout)
    assert found["extenders"][0]["urlPrefix"] == "https://10.0.0.9:8904/scheduler/v1"


WRONG = {
    "an unknown overlay": (("render", "other"), "allowed: base, "),
    "an unknown component": (("render", "--component", "other"), "allowed: "),
    "no version": (("render", "--kubernetes-version", "latest"), "allowed: 1.34.Z or newer"),
    "two of its three numbers": (("render", "--kubernetes-version", "v1.37-eks-1"), "allowed: 1.34.Z or newer"),
    "too old, as a vendor writes it": (("render", "--kubernetes-version", "v1.33.9-eks-1"), "allowed: 1.34.Z or"),
    "a number with a zero before it": (("render", "--kubernetes-version", "v1.037.2"), "allowed: 1.34.Z or newer"),
    "no version for an overlay without a kube-scheduler": (
        ("render", "shared-scheduler", "--kubernetes-version", "latest"),
        "allowed: 1.34.Z or newer",
    ),
    "an image of two words": (("render", "--image", "a b"), "allowed: NAME:TAG"),
    "an address for an overlay without one": (("render", "--scheduler-address", "x"), "allowed: shared-scheduler"),
    "an address that is none": (("render", "shared-scheduler", "--scheduler-address", "a/b"), "a host name or an IP"),
}


@pytest.mark.parametrize(("args", "text"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_told_with_what_is_allowed(kohort: Run, args: tuple[str, ...], text: str) -> None:
    found = kohort(*args)
    assert (found.exit_code, text in found.stderr) == (2, True), found.output


def test_what_is_not_known_is_refused_and_never_left_out(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("namePrefix: my-\n")
    with pytest.raises(ManifestError, match="namePrefix is not allowed"):
        build(tmp_path)
    (tmp_path / FILE).write_text("patches: [{path: p.yaml}]\n")
    (tmp_path / "p.yaml").write_text("kind: Pod\nmetadata: {name: none}\n")
    with pytest.raises(ManifestError, match="patches an object that does not exist"):
        build(tmp_path)


MERGES: dict[str, tuple[Any, Any, Any]] = {
    "fields": ({"a": 1, "b": 2}, {"b": 3}, {"a": 1, "b": 3}),
    "null takes away": ({"a": 1, "b": 2}, {"b": None}, {"a": 1}),
    "named items": (
        {"env": [{"name": "a", "value": "1"}, {"name": "b"}]},
        {"env": [{"name": "a", "value": "2"}, {"name": "b", "$patch": "delete"}, {"name": "c"}]},
        {"env": [{"name": "a", "value": "2"}, {"name": "c"}]},
    ),
    "other lists whole": ({"args": ["a", "b"]}, {"args": ["c"]}, {"args": ["c"]}),
}


@pytest.mark.parametrize(("base", "change", "want"), MERGES.values(), ids=MERGES.keys())
def test_a_patch_is_merged(base: Any, change: Any, want: Any) -> None:
    assert merged(base, change) == want
