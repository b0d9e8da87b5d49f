"""Collects why no node accepts a pod, and words it as kube-scheduler does in the pod's condition (FitError)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Diagnosis:
    """The reason of each node that refuses a pod, and the plugins that refused.

    nodes: the number of all nodes. rejectors: the names of the plugins; an extender counts as the plugin ``Extender``.
    """

    nodes: int
    rejectors: set[str] = field(default_factory=set)
    _reasons: dict[str, str] = field(default_factory=dict)

    def refuse(self, node: str, plugin: str, reason: str) -> None:
        """Record why a plugin refuses the node; this replaces the node's earlier reason."""
        self._reasons[node] = reason
        self.rejectors.add(plugin)

    def text(self) -> str:
        """Return the message of the pod's condition.

        The text must be the same after every attempt with the same outcome, because a patch with another text would
        wake the pod, which would then be tried again at once.
        """
        if not self.nodes:
            return "no nodes available to schedule pods"
        counted = Counter(reason for reason in self._reasons.values() if reason)
        reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counted.items()))
        return f"0/{self.nodes} nodes are available: {reasons}."
