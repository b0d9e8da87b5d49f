"""Resource definitions of kinds whose controllers no test runs: those of jobs from Go modules, those of pod groups made
here.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.cache import cache_directory, is_json, locked
from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.toolchain import find_go


@dataclass(frozen=True, slots=True)
class Definition:
    """A custom resource definition in a file of a Go module; ``checksum`` is the module's, as in go.sum."""

    module: str
    version: str
    checksum: str
    file: str

    @property
    def cached(self) -> Path:
        """Return the path of the definition's copy in JSON, because parsing the YAML would take seconds."""
        return cache_directory() / f"{Path(self.file).stem}-{self.version}.json"


JOBSET = Definition(
    "sigs.k8s.io/jobset",
    "v0.8.2",
    "h1:WC5a5G7MqfJJy4p+6OxGMpfbB90KoDSay96Mc4yMMZM=",
    "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
)
TRAINJOB = Definition(
    "github.com/kubeflow/trainer/v2",
    "v2.0.0",
    "h1:mnQSR9iPKItxyUR8mq66XsmxqKNVHwr9YYOB7BTU9dU=",
    "manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml",
)
DEFINITIONS = (JOBSET, TRAINJOB)
COSCHEDULING = "scheduling.x-k8s.io/v1alpha1"
VOLCANO = "scheduling.volcano.sh/v1beta1"


def definition(one: Definition) -> dict[str, Any]:
    """Return the CustomResourceDefinition. Raises ControlPlaneError if its module cannot be fetched or has changed."""
    if not is_json(one.cached):
        with locked(
            cache_directory() / "definitions.lock", "waiting for another run that fetches resource definitions"
        ):
            if not is_json(one.cached):
                _fetch(one)
    found: dict[str, Any] = json.loads(one.cached.read_text())
    return found


def group_definition(api: str) -> dict[str, Any]:
    """Return a minimal definition of that API's PodGroups, which accepts any spec.

    The original definitions are in no Go module that the tests may fetch.
    """
    group, _, version = api.partition("/")
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": spec}}}
    plural = "podgroups"
    names = {"plural": plural, "singular": "podgroup", "kind": "PodGroup"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test's own copy"},
        },
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced",
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


def _fetch(one: Definition) -> None:
    go = find_go()
    name = f"{one.module}@{one.version}"
    answer = subprocess.run(
        [go, "mod", "download", "-json", name],
        cwd=cache_directory(),
        env=os.environ | {"GOFLAGS": "", "GOTOOLCHAIN": "local", "GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise ControlPlaneError(f"{name} cannot be fetched:\n{answer.stdout}{answer.stderr}")
    told = json.loads(answer.stdout)
    if told["Sum"] != one.checksum:
        raise ControlPlaneError(f"{name} has the checksum {told['Sum']} and not {one.checksum}")
    partial = one.cached.with_name(f"{one.cached.name}.partial")
    partial.write_text(json.dumps(yaml.safe_load((Path(told["Dir"]) / one.file).read_text())))
    partial.rename(one.cached)
