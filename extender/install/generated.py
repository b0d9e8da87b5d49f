"""Makes the ConfigMaps of kustomize's ``configMapGenerator``. Only the features that Kohort's manifests use work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]
OPTIONS: Final = {"disableNameSuffixHash", "labels"}
GENERATOR: Final = {"name", "namespace", "files", "options"}


class GeneratorError(Exception):
    """A kustomize generator in the manifests uses an unsupported field; the message lists the supported fields."""


def config_maps(plan: Mapping[str, Any], folder: Path) -> list[Json]:
    """Return the ConfigMaps that a kustomization generates.

    plan: the content of its kustomization.yaml. folder: the folder of its files. Raise GeneratorError for a field that
    is not supported, and OSError if a file cannot be read.
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
