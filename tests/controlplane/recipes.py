"""The binaries of the control plane, each with a recipe and built from a pinned go.mod in this folder.

To raise a version, change the go.mod (``go get MODULE@VERSION && go mod tidy``), then the version here.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

GO_MODULES = Path(__file__).parent / "go"
KUBERNETES_VERSION = "v1.37.2"
TRAINING_OPERATOR_MODULE = "github.com/kubeflow/training-operator"


@dataclass(frozen=True, slots=True)
class Recipe:
    """One binary: its name, the Go module folder that pins it, its main package, its version and its build tags."""

    binary: str
    module: str
    package: str
    version: str
    ldflags: str = ""
    tags: str = ""

    @property
    def directory(self) -> Path:
        """Return the folder of the go.mod that pins this binary."""
        return GO_MODULES / self.module

    @property
    def fingerprint(self) -> str:
        """Return a short hash of the binary's inputs, which is part of its name in the cache."""
        digest = hashlib.sha256()
        for name in ("go.mod", "go.sum"):
            digest.update((self.directory / name).read_bytes())
        digest.update(f"{self.package} {self.ldflags}{self.tags}".encode())
        return digest.hexdigest()[:12]


def _kubernetes_ldflags(version: str) -> str:
    """Return the flags with which a Kubernetes binary reports its version instead of v0.0.0-master."""
    major, minor, _ = version.removeprefix("v").split(".")
    values = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",  # The date is constant, so that the same sources give the same binary.
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {package}.{key}={value}" for package in packages for key, value in values.items())


def _kubernetes(binary: str, version: str = KUBERNETES_VERSION, module: str = "kubernetes") -> Recipe:
    return Recipe(binary, module, f"k8s.io/kubernetes/cmd/{binary}", version, _kubernetes_ldflags(version))


# In build order. etcd has the release to which Kubernetes itself is pinned, and therefore its module.
RECIPES = (
    Recipe("etcd", "kubernetes", "go.etcd.io/etcd/server/v3", "v3.7.0"),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubectl"),
    Recipe("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", "v0.8.0", "-X sigs.k8s.io/kwok/pkg/consts.Version=v0.8.0"),
    Recipe("training-operator", "training-operator", f"{TRAINING_OPERATOR_MODULE}/cmd/training-operator.v1", "v1.8.1"),
    _kubernetes("kube-controller-manager"),
)

# These are the versions for ``make skew``: the newest patch of each older minor version that the Go module proxy
# serves.
OLDER_VERSIONS = ("v1.36.3", "v1.35.4", "v1.34.4")


def recipes_of(version: str) -> tuple[Recipe, ...]:
    """Return the recipes with API server and scheduler of that version; the others are unchanged."""
    if version == KUBERNETES_VERSION:
        return RECIPES
    module = f"kubernetes-{version.removeprefix('v').rpartition('.')[0]}"
    older = {binary: _kubernetes(binary, version, module) for binary in ("kube-apiserver", "kube-scheduler")}
    return tuple(older.get(recipe.binary, recipe) for recipe in RECIPES)


def _prometheus(binary: str) -> Recipe:
    """Return the recipe of a part of Prometheus 3.15, whose module has the version 0.315.

    Service discovery in clouds is left out, because it would double the build.
    """
    package = f"github.com/prometheus/prometheus/cmd/{binary}"
    version = "-X github.com/prometheus/common/version.Version=3.15.0"
    return Recipe(binary, "prometheus", package, "v0.315.0", version, "remove_all_sd")


# Not part of the control plane: it monitors Kohort in a test.
MONITORING = (_prometheus("prometheus"), _prometheus("promtool"))
