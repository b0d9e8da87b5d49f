"""Collects the reasons for which no node accepts a pod, and makes the message of the pod's condition from them, as
kube-scheduler does (FitError).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Diagnosis:
    """Why a pod was not scheduled: the reason for each node that was refused, and the plugins that refused nodes.

    nodes: the number of all nodes. rejectors: the names of these plugins; an extender counts as the plugin
    ``Extender``.
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

        The text must be the same after every attempt with the same outcome, because a patch that changes the text is an
        event that wakes the pod, and the pod would be tried again at once.
        """
        if not self.nodes:
            return "no nodes available to schedule pods"
        counted = Counter(reason for reason in self._reasons.values() if reason)
        reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counted.items()))
        return f"0/{self.nodes} nodes are available: {reasons}."
