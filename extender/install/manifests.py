"""Renders the manifests that Kohort ships, with the versions and addresses of one cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import yaml

from extender.config.settingsfile import ENTRY as SETTINGS
from extender.install.kustomization import Json, ManifestError, build

SCHEDULER: Final = "kube-scheduler"
OLDEST_MINOR: Final = 34
GATE_MINOR: Final = 36  # API servers have MutatingAdmissionPolicies, which the gate needs, from Kubernetes 1.36 on
GATE_KINDS: Final = frozenset({"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"})
_GATE: Final = re.compile(r"^gate: .*$", re.MULTILINE)
_VERSION: Final = re.compile(r"v?(?P<numbers>1\.(?P<minor>0|[1-9]\d{0,2})\.(?:0|[1-9]\d{0,2}))(?:[-+]\S+)?", re.ASCII)


def folder() -> Path:
    """Return the folder of the manifests, which is inside this package in a wheel, and at the top of a checkout."""
    packed = Path(__file__).parent / "manifests"
    return packed if packed.is_dir() else Path(__file__).parents[2] / "manifests"


def overlays() -> list[str]:
    """Return the names of the overlays that can be rendered."""
    return ["base", *(name for name in _folders("overlays"))]


def rendered(
    overlay: str = "base", components: Iterable[str] = (), image: str | None = None, kubernetes: str | None = None
) -> list[Json]:
    """Return the Kubernetes objects of an overlay, as changed by the components with these names.

    image: the name of Kohort's image; None for the image of this version. kubernetes: the cluster's version, X.Y.Z, for
    which the image of kube-scheduler and the gate are chosen; None leaves both unchanged. Raise ManifestError if an
    argument is not allowed.
    """
    wanted = _checked(kubernetes) if kubernetes is not None else None
    added = [_component(name) for name in components]
    objects = build(_overlay(overlay), added)
    own = f"kohort:{version('kohort')}" if image is None else image
    if not own or not (own.isascii() and own.isprintable()) or " " in own:
        raise ManifestError(f"--image: {own!r} is not allowed; allowed: NAME:TAG or NAME@DIGEST")
    for container in _containers(objects):
        name = str(container["image"])
        if name.partition("@")[0].rpartition(":")[0].rpartition("/")[2] == SCHEDULER:
            if wanted is not None:
                container["image"] = f"{name.rpartition(':')[0]}:v{wanted}"
        elif name.partition(":")[0] == "kohort":
            container["image"] = own
    return objects if wanted is None or int(wanted.split(".")[1]) >= GATE_MINOR else _without_gate(objects)


def _without_gate(objects: list[Json]) -> list[Json]:
    """Return the objects without the admission policy of the gate, and with the setting ``gate: never``.

    API servers before Kubernetes 1.36 need this, because they do not have MutatingAdmissionPolicies.
    """
    for item in objects:
        if item["kind"] == "ConfigMap" and SETTINGS in item.get("data", {}):
            item["data"][SETTINGS], found = _GATE.subn("gate: never", item["data"][SETTINGS])
            if found != 1:
                raise ManifestError(
                    f"ConfigMap {item['metadata']['name']}: {SETTINGS} has the setting gate {found} times; allowed: "
                    "once"
                )
    return [item for item in objects if item["kind"] not in GATE_KINDS]


def scheduler_configuration(overlay: str, address: str) -> Json:
    """Return the KubeSchedulerConfiguration with which the cluster's own kube-scheduler calls Kohort.

    address: Kohort's host name or IP address, as the host in the extender's URL. Raise ManifestError if the overlay has
    no such configuration, or if the address is malformed.
    """
    path = _overlay(overlay) / f"{SCHEDULER}.yaml"
    if not path.is_file():
        raise ManifestError(
            f"OVERLAY: {overlay!r} is not allowed with --scheduler-address; allowed: shared-scheduler, which has "
            f"{path.name}"
        )
    if not _is_host(address):
        raise ManifestError(f"--scheduler-address: {address!r} is not allowed; allowed: a host name or an IP address")
    found: Json = yaml.safe_load(path.read_text())
    for extender in found["extenders"]:
        parts = urlsplit(extender["urlPrefix"])
        extender["urlPrefix"] = parts._replace(netloc=f"{address}:{parts.port}").geturl()
    return found


def _is_host(address: str) -> bool:
    try:
        return bool(address) and urlsplit(f"//{address}").hostname == address.strip("[]").lower()
    except ValueError:
        return False


def _overlay(name: str) -> Path:
    if name not in overlays():
        raise ManifestError(f"OVERLAY: {name!r} is not allowed; allowed: {', '.join(overlays())}")
    return folder() / name if name == "base" else folder() / "overlays" / name


def _component(name: str) -> Path:
    if name not in (there := _folders("components")):
        raise ManifestError(f"--component: {name!r} is not allowed; allowed: {', '.join(there)}")
    return folder() / "components" / name


def _folders(kind: str) -> list[str]:
    return sorted(path.name for path in (folder() / kind).iterdir() if path.is_dir())


def _checked(text: str) -> str:
    """Return the X.Y.Z of a Kubernetes version such as ``v1.36.2-gke.2``, in the form that `kubectl version` prints.

    A vendor's suffix (-eks-1, -gke.2, +k3s1) is ignored, as version.ParseGeneric of k8s.io/apimachinery does. Raise
    ManifestError for any other text and for a version that is too old.
    """
    found = _VERSION.fullmatch(text.strip())
    if found is None or int(found["minor"]) < OLDEST_MINOR:
        raise ManifestError(
            f"--kubernetes-version: {text!r} is not allowed; allowed: 1.{OLDEST_MINOR}.Z or newer, as "
            "`kubectl version` tells it"
        )
    return found["numbers"]


def _containers(objects: Iterable[Json]) -> Iterator[Json]:
    for item in objects:
        pod = item.get("spec", {}).get("template", {}).get("spec", {}) if item["kind"] == "Deployment" else {}
        yield from (*pod.get("containers", ()), *pod.get("initContainers", ()))
