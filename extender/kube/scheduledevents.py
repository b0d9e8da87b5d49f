"""Writes the Event ``Scheduled`` on pods that Kohort bound without a bind call from kube-scheduler.

kube-scheduler writes that Event only for pods that it binds itself. An Event that could not be written, or that was due
when the process ended, is lost.
"""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from typing import Any, Final

from extender.clock import Clock
from extender.kube.api import Api
from policy.cluster.actions import Bind

EXTENDER: Final = "kohort.dev/extender"
# If kube-scheduler's bind call for the pod comes within this time after the binding, kube-scheduler writes the Event.
PATIENCE_SECONDS: Final = 2.0
LOOK_SECONDS: Final = 1.0


class ScheduledEvents:
    """Remembers the pods that were bound without a bind call, and writes their Events after `PATIENCE_SECONDS`."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        # The keys are pod uids; the values are the pod's binding, and when it was made in seconds since the epoch.
        self._due: dict[str, tuple[Bind, float]] = {}
        self._host = socket.gethostname()[:128] or "unknown"

    def bound(self, bind: Bind) -> None:
        """Record that the pod was bound while no bind call for it was held."""
        self._due[bind.uid] = bind, self._clock.now()

    def asked(self, uid: str) -> None:
        """Record that kube-scheduler's bind call for the pod has come. kube-scheduler then writes the Event, so Kohort
        does not.
        """
        self._due.pop(uid, None)

    async def run(self) -> None:
        """Write the Events of pods that were bound `PATIENCE_SECONDS` ago; go on until cancelled."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            latest = self._clock.now() - PATIENCE_SECONDS
            for uid, (bind, at) in [*self._due.items()]:
                if at <= latest and self._due.pop(uid, None) is not None:
                    await self._api.create_event(bind.namespace, self._event(bind, at))

    def _event(self, bind: Bind, at: float) -> dict[str, Any]:
        return {
            "metadata": {"name": f"{bind.name[:200]}.{bind.uid[:36]}", "namespace": bind.namespace},
            "eventTime": datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "reportingController": EXTENDER,
            "reportingInstance": self._host,
            "action": "Binding",
            "reason": "Scheduled",
            "type": "Normal",
            "note": f"Successfully assigned {bind.namespace}/{bind.name} to {bind.node}",
            "regarding": {
                "apiVersion": "v1", "kind": "Pod", "namespace": bind.namespace, "name": bind.name, "uid": bind.uid,
            },
        }  # fmt: skip
