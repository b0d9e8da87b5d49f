"""Why no node accepts a pod, in the text that kube-scheduler writes into the pod's condition (FitError)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Diagnosis:
    """The reasons by node, and the plugins that refused; an extender counts as the plugin ``Extender``."""

    nodes: int
    rejectors: set[str] = field(default_factory=set)
    _reasons: dict[str, str] = field(default_factory=dict)

    def refuse(self, node: str, plugin: str, reason: str) -> None:
        """Record a refusal; it replaces an earlier one of the same node."""
        self._reasons[node] = reason
        self.rejectors.add(plugin)

    def text(self) -> str:
        """Return the message of the pod's condition.

        The text must be the same on every attempt with the same outcome: the patch of a different one would wake the
        pod.
        """
        if not self.nodes:
            return "no nodes available to schedule pods"
        counted = Counter(reason for reason in self._reasons.values() if reason)
        reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counted.items()))
        return f"0/{self.nodes} nodes are available: {reasons}."
