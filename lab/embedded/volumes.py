"""Imitates how kube-scheduler's VolumeBinding plugin treats PersistentVolumeClaims that have no volume yet.

The plugin's PreFilter refuses a pod that has such a claim with binding mode Immediate. For a claim with the mode
WaitForFirstConsumer, the pod is assumed on its node, and PreBind waits for the volume until its time-out. During this
wait only the scheduler's own cache charges the pod's room; no API object shows it.
"""

from __future__ import annotations

from collections.abc import Callable

from extender.clock import Clock
from lab.embedded.cache import PodInfo

POLL_SECONDS = 1.0


class Volumes:
    """The claims that have no volume yet; all other claims count as bound."""

    def __init__(self) -> None:
        # _missing maps (namespace, claim) to whether the claim's binding mode is WaitForFirstConsumer.
        self._missing: dict[tuple[str, str], bool] = {}
        self._listeners: list[Callable[[], None]] = []

    def lose(self, namespace: str, claim: str, *, first_consumer: bool) -> None:
        """Let the claim have no volume from now on. ``first_consumer``: whether the claim's binding mode is
        WaitForFirstConsumer.
        """
        self._missing[namespace, claim] = first_consumer

    def arrive(self, namespace: str, claim: str) -> None:
        """Bind the claim to a volume, and call the listeners."""
        if self._missing.pop((namespace, claim), None) is not None:
            for listener in self._listeners:
                listener()

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Register a callback that is called whenever a claim is bound."""
        self._listeners.append(listener)

    def bars(self, pod: PodInfo) -> bool:
        """Tell whether PreFilter refuses the pod, because one of the pod's claims with mode Immediate has no volume."""
        return any(not self._missing.get((pod.namespace, claim), True) for claim in pod.volumes)

    async def bound(self, pod: PodInfo, clock: Clock, seconds: float) -> bool:
        """Wait up to ``seconds`` until all of the pod's claims have volumes; return whether they have."""
        ends = clock.monotonic() + seconds
        while any((pod.namespace, claim) in self._missing for claim in pod.volumes):
            if (left := ends - clock.monotonic()) <= 0:
                return False
            await clock.sleep(min(POLL_SECONDS, left))
        return True
