"""PersistentVolumeClaims without a volume, as kube-scheduler's VolumeBinding plugin meets them.

A claim of a class with Immediate binding bars its pod in PreFilter. One that waits for its first consumer lets it
through: the pod is assumed, and PreBind waits for the volume until its time-out. Until then the room is held in the
cache of that scheduler, and in no API object.
"""

from __future__ import annotations

from collections.abc import Callable

from extender.clock import Clock
from lab.embedded.cache import PodInfo

POLL_SECONDS = 1.0


class Volumes:
    """Which claims of the cluster are not bound yet, and who is told when one is."""

    def __init__(self) -> None:
        self._missing: dict[tuple[str, str], bool] = {}  # namespace, claim -> whether it waits for its first consumer
        self._told: list[Callable[[], None]] = []

    def lose(self, namespace: str, claim: str, *, first_consumer: bool) -> None:
        """Let the claim have no volume from now on."""
        self._missing[namespace, claim] = first_consumer

    def arrive(self, namespace: str, claim: str) -> None:
        """Bind the claim to a volume."""
        if self._missing.pop((namespace, claim), None) is not None:
            for tell in self._told:
                tell()

    def tell(self, tell: Callable[[], None]) -> None:
        """Have somebody told whenever a claim is bound."""
        self._told.append(tell)

    def bars(self, pod: PodInfo) -> bool:
        """Whether PreFilter refuses the pod."""
        return any(not self._missing.get((pod.namespace, claim), True) for claim in pod.volumes)

    async def bound(self, pod: PodInfo, clock: Clock, seconds: float) -> bool:
        """Whether all its volumes are there within so many seconds."""
        ends = clock.monotonic() + seconds
        while any((pod.namespace, claim) in self._missing for claim in pod.volumes):
            if (left := ends - clock.monotonic()) <= 0:
                return False
            await clock.sleep(min(POLL_SECONDS, left))
        return True
