"""Why no node took a pod, in the words that kube-scheduler writes into the pod's condition (FitError)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Diagnosis:
    """Reasons by node, and the plugins that refused; an extender counts as the plugin ``Extender``."""

    nodes: int
    rejectors: set[str] = field(default_factory=set)
    _reasons: dict[str, str] = field(default_factory=dict)

    def refuse(self, node: str, plugin: str, reason: str) -> None:
        """Note a refusal; the last one of a node counts."""
        self._reasons[node] = reason
        self.rejectors.add(plugin)

    def text(self) -> str:
        """Return the message: it must not vary, or its own patch wakes the pod again."""
        if not self.nodes:
            return "no nodes available to schedule pods"
        counted = Counter(reason for reason in self._reasons.values() if reason)
        reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counted.items()))
        return f"0/{self.nodes} nodes are available: {reasons}."
