"""kohort render builds what kubectl builds of the same folders."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from typing import Any

import pytest
import yaml

from extender.install.kustomization import KEYS, build
from extender.install.manifests import folder, overlays
from tests.controlplane.build import build as built


def in_order(value: Any, key: str = "") -> Any:
    """Lists of known items in the order of their names: a merge may put them in another one."""
    if isinstance(value, dict):
        return {name: in_order(below, name) for name, below in value.items()}
    if isinstance(value, list):
        found = [in_order(one) for one in value]
        by = KEYS.get(key) or ("containerPort" if key == "ports" else "")
        return sorted(found, key=lambda one: str(one.get(by))) if by and isinstance(found[0], dict) else found
    return re.sub(r"\n+", "\n", value) if isinstance(value, str) else value  # kubectl's writer doubles some


def named(objects: Iterable[dict[str, Any]]) -> dict[tuple[str, str, str], Any]:
    return {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): in_order(one) for one in objects
    }


@pytest.mark.parametrize("overlay", overlays())
def test_what_is_rendered_is_what_kubectl_builds(overlay: str) -> None:
    where = folder() / ("base" if overlay == "base" else f"overlays/{overlay}")
    text = subprocess.run([built()["kubectl"], "kustomize", where], check=True, capture_output=True, text=True).stdout
    assert named(build(where)) == named(yaml.safe_load_all(text))
