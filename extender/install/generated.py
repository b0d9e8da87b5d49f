"""ConfigMaps that a kustomization generates from files: the features of ``configMapGenerator`` that our files use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]
OPTIONS: Final = {"disableNameSuffixHash", "labels"}
GENERATOR: Final = {"name", "namespace", "files", "options"}


class GeneratorError(Exception):
    """A generator uses a feature that is not known here; the text names those that are."""


def config_maps(plan: Mapping[str, Any], folder: Path) -> list[Json]:
    """Return the ConfigMaps of the kustomization in that folder.

    Raise GeneratorError, or OSError where a file cannot be read.
    """
    shared = plan.get("generatorOptions", {})
    return [_config_map(one, shared, folder) for one in plan.get("configMapGenerator", ())]


def _config_map(one: Mapping[str, Any], shared: Mapping[str, Any], folder: Path) -> Json:
    own = one.get("options", {})
    _allowed("configMapGenerator", one, GENERATOR)
    _allowed("generatorOptions", {**shared, **own}, OPTIONS)
    if not {**shared, **own}.get("disableNameSuffixHash"):
        raise GeneratorError(f"configMapGenerator: {one.get('name')}: disableNameSuffixHash: true alone is allowed")
    pairs = (file.rpartition("=") for file in one.get("files", ()))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": one["name"],
            **({"namespace": one["namespace"]} if "namespace" in one else {}),
            "labels": {**shared.get("labels", {}), **own.get("labels", {})},
        },
        "data": {key or Path(file).name: (folder / file).read_text() for key, _, file in pairs},
    }


def _allowed(what: str, given: Mapping[str, Any], known: set[str]) -> None:
    if unknown := given.keys() - known:
        raise GeneratorError(
            f"{what}: {', '.join(sorted(unknown))} is not allowed; allowed: {', '.join(sorted(known))}"
        )
