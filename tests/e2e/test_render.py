"""Tests that ``kohort render`` builds the same objects as ``kubectl kustomize`` from the same folders."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.install.kustomization import KEYS, build
from extender.install.manifests import folder, overlays, rendered
from tests.controlplane.build import build as built

pytestmark = pytest.mark.full


def in_order(value: Any, key: str = "") -> Any:
    """Return the value with lists whose items have names ordered by these, because a merge may change their order."""
    if isinstance(value, dict):
        return {name: in_order(below, name) for name, below in value.items()}
    if isinstance(value, list):
        found = [in_order(one) for one in value]
        by = KEYS.get(key) or ("containerPort" if key == "ports" else "")
        return sorted(found, key=lambda one: str(one.get(by))) if by and isinstance(found[0], dict) else found
    return re.sub(r"\n+", "\n", value) if isinstance(value, str) else value  # kubectl doubles some line ends.


def named(objects: Iterable[dict[str, Any]]) -> dict[tuple[str, str, str], Any]:
    return {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): in_order(one) for one in objects
    }


def kubectl_builds(where: Path) -> Iterable[dict[str, Any]]:
    done = subprocess.run([built()["kubectl"], "kustomize", where], check=True, capture_output=True, text=True)
    return yaml.safe_load_all(done.stdout)


@pytest.mark.parametrize("overlay", overlays())
def test_what_is_rendered_is_what_kubectl_builds(overlay: str) -> None:
    where = folder() / ("base" if overlay == "base" else f"overlays/{overlay}")
    assert named(build(where)) == named(kubectl_builds(where))


@pytest.mark.parametrize("component", [path.name for path in sorted((folder() / "components").iterdir())])
def test_what_is_rendered_with_a_component_is_what_kubectl_builds(component: str, tmp_path: Path) -> None:
    lines = {"resources": folder() / "base", "components": folder() / "components" / component}
    text = "".join(f"{key}: [{os.path.relpath(path, tmp_path)}]\n" for key, path in lines.items())
    (tmp_path / "kustomization.yaml").write_text(text)
    ours = build(folder() / "base", [folder() / "components" / component])
    assert named(ours) == named(kubectl_builds(tmp_path))
    assert named(ours).keys() == named(rendered(components=[component])).keys()
