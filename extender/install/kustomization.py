"""Builds Kohort's kustomizations as ``kubectl kustomize`` does: resources, components, ConfigMaps, patches, labels.

Only the features of kustomize that Kohort's manifests use are supported; any other feature is an error and is never
ignored. A test compares the results with those of kubectl.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

Json = dict[str, Any]
FILE: Final = "kustomization.yaml"
KNOWN: Final = {
    "apiVersion", "kind", "resources", "components", "configMapGenerator", "generatorOptions", "patches", "labels",
}  # fmt: skip
OPTIONS: Final = {"disableNameSuffixHash", "labels"}
GENERATOR: Final = {"name", "namespace", "files", "options"}
# A strategic merge patch merges the items of these lists, by the field that identifies an item. It replaces all other
# lists as a whole, except ports.
KEYS: Final = {
    "containers": "name", "initContainers": "name", "volumes": "name", "env": "name", "volumeMounts": "mountPath",
}  # fmt: skip


class ManifestError(Exception):
    """The manifests cannot be built; the text names the file or argument and what is allowed."""


def build(folder: Path, components: Iterable[Path] = ()) -> list[Json]:
    """Return the objects of the kustomization in ``folder``, as changed by the components in the folders given."""
    objects = _built(folder, [])
    for component in components:
        objects = _built(component, objects)
    return objects


def _built(folder: Path, objects: list[Json]) -> list[Json]:
    """Return ``objects`` and the objects of the kustomization or component in ``folder``, with its patches applied."""
    plan = _read(folder / FILE)
    _allow_only(KNOWN, plan, f"{folder / FILE}")
    for name in plan.get("resources", ()):
        path = folder / name
        objects = [*objects, *(_built(path, []) if path.is_dir() else _documents(path))]
    for name in plan.get("components", ()):
        objects = _built(folder / name, objects)
    objects = [*objects, *_generated(plan, folder)]
    for patch in plan.get("patches", ()):
        if patch.keys() != {"path"}:
            raise ManifestError(
                f"{folder / FILE}: patches: {patch} is not allowed; allowed: only the key path. `kubectl kustomize` "
                "knows more"
            )
        for change in _documents(folder / patch["path"]):
            objects = _patched(objects, change, folder / patch["path"])
    for labels in plan.get("labels", ()):
        if labels.get("includeSelectors") or labels.get("includeTemplates"):
            raise ManifestError(
                f"{folder / FILE}: labels: includeSelectors and includeTemplates are not allowed; allowed: only pairs. "
                "`kubectl kustomize` knows more"
            )
        for one in objects:
            one["metadata"].setdefault("labels", {}).update(labels["pairs"])
    return objects


def _generated(plan: Json, folder: Path) -> list[Json]:
    """Return the ConfigMaps that a kustomization generates. ``plan``: the contents of its kustomization.yaml."""
    shared = plan.get("generatorOptions", {})
    try:
        return [_config_map(one, shared, folder) for one in plan.get("configMapGenerator", ())]
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"{folder / FILE}: configMapGenerator: {error}; give a readable text file") from None


def _config_map(one: Json, shared: Json, folder: Path) -> Json:
    own, where = one.get("options", {}), f"{folder / FILE}: configMapGenerator"
    _allow_only(GENERATOR, one, where)
    _allow_only(OPTIONS, options := {**shared, **own}, f"{folder / FILE}: generatorOptions")
    if not options.get("disableNameSuffixHash"):
        raise ManifestError(
            f"{where}: {one.get('name')}: disableNameSuffixHash is not true; allowed: true. `kubectl kustomize` "
            "knows more"
        )
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


def _allow_only(known: set[str], given: Json, where: str) -> None:
    if unknown := given.keys() - known:
        raise ManifestError(
            f"{where}: {', '.join(sorted(unknown))} is not allowed; allowed: {', '.join(sorted(known))}. "
            "`kubectl kustomize` knows more"
        )


def _patched(objects: list[Json], change: Json, path: Path) -> list[Json]:
    found = [one for one in objects if _identity(one) == _identity(change)]
    if not found:
        raise ManifestError(
            f"{path}: {'/'.join(_identity(change))} patches an object that does not exist; correct its kind or name"
        )
    if change.get("$patch") == "delete":
        return [one for one in objects if one is not found[0]]
    return [merged(one, change) if one is found[0] else one for one in objects]


def _identity(item: Json) -> tuple[str, str, str]:
    meta = item.get("metadata", {})
    return str(item.get("kind")), str(meta.get("namespace", "")), str(meta.get("name"))


def merged(base: Json, change: Mapping[str, Any]) -> Json:
    """Return a copy of the object ``base`` with the strategic merge patch ``change`` applied; null removes a field."""
    result = copy.deepcopy(base)
    for key, value in change.items():
        below = result.get(key)
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(below, dict):
            result[key] = merged(below, value)
        elif key in KEYS and isinstance(below, list):
            result[key] = _merged_list(below, value, KEYS[key])
        elif key == "ports" and isinstance(below, list):
            result[key] = _merged_list(below, value, "containerPort" if "containerPort" in value[0] else "port")
        else:
            result[key] = copy.deepcopy(value)
    return result


def _merged_list(base: list[Json], change: list[Json], key: str) -> list[Json]:
    result = {item[key]: item for item in base}
    for item in change:
        if item.get("$patch") == "delete":
            result.pop(item[key], None)
        else:
            result[item[key]] = merged(result.get(item[key], {}), item)
    return list(result.values())


def _read(path: Path) -> Json:
    found = _documents(path)
    if len(found) != 1:
        raise ManifestError(f"{path}: holds {len(found)} documents; allowed: one")
    return found[0]


def _documents(path: Path) -> list[Json]:
    try:
        return [one for one in yaml.safe_load_all(path.read_text()) if one]
    except (OSError, yaml.YAMLError) as error:
        raise ManifestError(f"{path}: cannot be read: {error}; give a readable YAML file") from None
