"""ConfigMaps made from files: the forms that our manifests use are supported, and others are refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from extender.install.kustomization import ManifestError, build

PLAIN: dict[str, Any] = {"name": "rules", "files": ["a.yaml", "b.json=c.txt"]}


def plan(folder: Path, generator: dict[str, Any], options: dict[str, Any] | None = None) -> Path:
    shared = {"disableNameSuffixHash": True} if options is None else options
    for name in ("a.yaml", "c.txt"):
        (folder / name).write_text(f"of {name}\n")
    told = {"generatorOptions": shared, "configMapGenerator": [generator]}
    (folder / "kustomization.yaml").write_text(json.dumps(told))
    return folder


def test_a_file_is_known_by_its_name_or_by_the_one_it_is_given(tmp_path: Path) -> None:
    (made,) = build(plan(tmp_path, PLAIN))
    assert made["data"] == {"a.yaml": "of a.yaml\n", "b.json": "of c.txt\n"}
    assert made["metadata"] == {"name": "rules", "labels": {}}


@pytest.mark.parametrize(
    ("generator", "options", "named"),
    [
        (PLAIN | {"literals": ["a=b"]}, None, "configMapGenerator: literals is not allowed; allowed: files, name"),
        (PLAIN | {"options": {"immutable": "yes"}}, None, "generatorOptions: immutable is not allowed"),
        (PLAIN, {}, "rules: disableNameSuffixHash is not true; allowed: true"),
        (PLAIN | {"files": ["nope.yaml"]}, None, "nope.yaml"),
    ],
)
def test_what_is_not_known_is_refused(
    tmp_path: Path, generator: dict[str, Any], options: dict[str, Any] | None, named: str
) -> None:
    with pytest.raises(ManifestError, match=named) as refused:
        build(plan(tmp_path, generator, options))
    assert str(tmp_path) in str(refused.value)
