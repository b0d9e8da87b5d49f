"""Fake nodes: Node objects that KWOK keeps ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

PODS_PER_NODE = 110


@dataclass(frozen=True, slots=True)
class NodeShape:
    """``count`` equal nodes with their capacity; a gpu of 0 leaves the resource out."""

    count: int = 3
    cpu: str = "10"
    memory: str = "32Gi"
    gpu: int = 1
    storage: str = "100Gi"  # This is the ephemeral storage of a node; an MPIJob's launcher requests 5 GiB of it.
    pods: int = PODS_PER_NODE
    labels: Mapping[str, str] = field(default_factory=dict)

    def manifests(self, prefix: str) -> Iterator[dict[str, Any]]:
        """Yield the nodes ``prefix``-0, ``prefix``-1 and so on."""
        for number in range(self.count):
            yield self._manifest(f"{prefix}-{number}")

    def _manifest(self, name: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {
                    "type": "kwok",
                    "kubernetes.io/hostname": name,
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64",
                    **self.labels,
                },
                "annotations": {"kwok.x-k8s.io/node": "fake"},
            },
            "status": {"allocatable": self._resources(), "capacity": self._resources()},
        }

    def _resources(self) -> dict[str, str]:
        given = {
            "cpu": self.cpu,
            "memory": self.memory,
            "ephemeral-storage": self.storage,
            "pods": str(self.pods),
        }
        return given | ({"nvidia.com/gpu": str(self.gpu)} if self.gpu else {})


THREE_NODES = NodeShape()
