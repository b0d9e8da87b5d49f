"""The overlay for the cluster's own kube-scheduler is consistent with itself, the base and the settings."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import kubernetes_validate
import pytest
import yaml

from extender.config.plainyaml import parse_yaml
from extender.config.settings import Settings
from extender.kubescheduler.checkconfig import check_file

MANIFESTS = Path(__file__).parents[2] / "manifests"
OVERLAY = MANIFESTS / "overlays" / "shared-scheduler"
Manifest = dict[str, Any]


def documents(folder: Path, name: str) -> list[Manifest]:
    return [document for document in yaml.safe_load_all((folder / name).read_text()) if document]


def named(manifest: Manifest) -> tuple[str, str, str]:
    meta = manifest["metadata"]
    return manifest["kind"], meta.get("namespace", ""), meta["name"]


KUSTOMIZATION = documents(OVERLAY, "kustomization.yaml")[0]
ADDED = [one for name in KUSTOMIZATION["resources"] if name.endswith(".yaml") for one in documents(OVERLAY, name)]
PATCHES = [one for patch in KUSTOMIZATION["patches"] for one in documents(OVERLAY, patch["path"])]
BASE = {
    named(one)
    for name in documents(MANIFESTS / "base", "kustomization.yaml")[0]["resources"]
    for one in documents(MANIFESTS / "base", name)
}
BY_KIND = {one["kind"]: one for one in (*ADDED, *(patch for patch in PATCHES if "$patch" not in patch))}
SETTINGS = Settings(**parse_yaml(BY_KIND["ConfigMap"]["data"]["kohort.yaml"]))
POD = BY_KIND["Deployment"]["spec"]["template"]["spec"]
EXTENDER = next(one for one in POD["containers"] if one["name"] == "extender")


def test_every_file_is_used_once() -> None:
    listed = [*KUSTOMIZATION["resources"], *(patch["path"] for patch in KUSTOMIZATION["patches"])]
    here = {path.name for path in OVERLAY.glob("*.yaml")}
    assert here - set(listed) == {"kustomization.yaml", "kube-scheduler.yaml"}
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("manifest", ADDED, ids=lambda one: "-".join(named(one)))
def test_what_is_added_is_valid_and_new(manifest: Manifest) -> None:
    kubernetes_validate.validate(manifest, "1.37", strict=True)
    assert named(manifest) not in BASE


@pytest.mark.parametrize("patch", PATCHES, ids=lambda one: "-".join(named(one)))
def test_what_is_changed_or_taken_away_is_in_the_base(patch: Manifest) -> None:
    assert named(patch) in BASE
    assert patch.get("$patch", "delete") == "delete"


def test_nothing_of_the_scheduler_in_our_pod_is_left() -> None:
    taken = {named(patch) for patch in PATCHES if "$patch" in patch}
    assert {name for name in BASE if name[2].startswith("kohort-scheduler")} <= taken
    assert {"name": "kube-scheduler", "$patch": "delete"} in POD["containers"]
    assert {"name": "scheduler-config", "$patch": "delete"} in POD["volumes"]


def test_check_config_warns_of_the_other_profile_and_of_nothing_else() -> None:
    found = check_file(OVERLAY / "kube-scheduler.yaml", SETTINGS)
    assert [(one.level, one.field, one.value) for one in found] == [("warning", "profiles", "default-scheduler")]


def test_kube_scheduler_calls_the_service_at_its_port() -> None:
    service = BY_KIND["Service"]
    (extender,) = documents(OVERLAY, "kube-scheduler.yaml")[0]["extenders"]
    host = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    (port,) = service["spec"]["ports"]
    assert extender["urlPrefix"] == f"https://{host}:{port['port']}/scheduler/v1"
    assert extender["tlsConfig"]["serverName"] == host
    assert EXTENDER["ports"] == [{"name": port["targetPort"], "containerPort": SETTINGS.server.tls.port}]
    reached = [entry["port"] for entry in BY_KIND["NetworkPolicy"]["spec"]["ingress"][0]["ports"]]
    assert reached == ["extender", "controller", port["targetPort"]]


def test_certificates_are_mounted_where_the_settings_look() -> None:
    tls = SETTINGS.server.tls
    (mount,) = EXTENDER["volumeMounts"]
    assert {str(PurePosixPath(path).parent) for path in (tls.certificate, tls.key, tls.client_ca)} == {
        mount["mountPath"]
    }
    volume = next(one for one in POD["volumes"] if one["name"] == mount["name"])
    assert set(volume) == {"name", "secret"}
    assert "subPath" not in mount, "a file mounted by subPath never changes"


def test_the_extenders_elect_by_the_lease_that_is_there_and_may_hold_it() -> None:
    lease, role, binding = BY_KIND["Lease"], BY_KIND["Role"], BY_KIND["RoleBinding"]
    assert SETTINGS.lease.elect
    assert (SETTINGS.lease.namespace, SETTINGS.lease.name) == named(lease)[1:]
    assert "spec" not in lease, "an apply must not take the Lease from its holder"
    assert role["rules"] == [
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [SETTINGS.lease.name],
            "verbs": ["get", "patch"],
        }
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert {one["name"] for one in binding["subjects"]} == {"kohort", "kohort-extender", "kohort-controller"}


def test_an_update_does_not_wait_for_a_follower_to_be_ready() -> None:
    update = BY_KIND["Deployment"]["spec"]["strategy"]["rollingUpdate"]
    assert (update["maxSurge"], update["maxUnavailable"]) == (0, "100%")
    assert ("PodDisruptionBudget", "kohort-system", "kohort") in {named(one) for one in PATCHES if "$patch" in one}


def test_the_largest_gang_is_the_one_that_the_settings_say() -> None:
    assert (
        f"largest gang that they admit has {SETTINGS.largest_gang} members" in (OVERLAY / "settings.yaml").read_text()
    )
