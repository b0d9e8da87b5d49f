"""PersistentVolumeClaims without a volume, as kube-scheduler's VolumeBinding plugin treats them.

A claim with Immediate binding makes PreFilter refuse its pod. A claim that waits for its first consumer does not: the
pod is assumed, and PreBind waits for the volume until its time-out. Until then the room is charged only in that
scheduler's cache, and no API object shows it.
"""

from __future__ import annotations

from collections.abc import Callable

from extender.clock import Clock
from lab.embedded.cache import PodInfo

POLL_SECONDS = 1.0


class Volumes:
    """The claims that are not bound yet, and the callbacks for when one is bound."""

    def __init__(self) -> None:
        # (namespace, claim) -> whether the claim waits for its first consumer
        self._missing: dict[tuple[str, str], bool] = {}
        self._listeners: list[Callable[[], None]] = []

    def lose(self, namespace: str, claim: str, *, first_consumer: bool) -> None:
        """Let the claim have no volume from now on."""
        self._missing[namespace, claim] = first_consumer

    def arrive(self, namespace: str, claim: str) -> None:
        """Bind the claim to a volume."""
        if self._missing.pop((namespace, claim), None) is not None:
            for listener in self._listeners:
                listener()

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Register a callback that is called whenever a claim is bound."""
        self._listeners.append(listener)

    def bars(self, pod: PodInfo) -> bool:
        """Tell whether PreFilter refuses the pod."""
        return any(not self._missing.get((pod.namespace, claim), True) for claim in pod.volumes)

    async def bound(self, pod: PodInfo, clock: Clock, seconds: float) -> bool:
        """Wait up to ``seconds`` for all of the pod's volumes; tell whether they are bound."""
        ends = clock.monotonic() + seconds
        while any((pod.namespace, claim) in self._missing for claim in pod.volumes):
            if (left := ends - clock.monotonic()) <= 0:
                return False
            await clock.sleep(min(POLL_SECONDS, left))
        return True
