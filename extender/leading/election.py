"""The extenders' own leader election, for a kube-scheduler outside our pod, whose Lease says nothing about our
replicas.

Safety does not depend on the election: every write carries the pod's uid or the job's resourceVersion. The manifests
create the Lease, so that the extender needs only the right to patch this one object. The times in the Lease come from
other machines' wall clocks and are only checked for changes; durations are measured by our monotonic clock, as in
lease.py.
"""

from __future__ import annotations

import logging
import random
import socket
from datetime import UTC, datetime
from typing import Final

from extender.clock import Clock
from extender.config.sections import LeaseSettings
from extender.kube.api import Api, ClusterError, Done, Json
from extender.leading.lease import DURATION_SECONDS, RENEW_SHARE, Lease

_log = logging.getLogger(__name__)
TIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"


class Election(Lease):
    """Takes and renews a Lease of our own; the rest of the service uses an `Election` like any other `Lease`."""

    def __init__(self, api: Api, settings: LeaseSettings, clock: Clock, chance: random.Random) -> None:
        """Store the arguments. This replica does not lead until a call of `look` has taken the Lease.

        ``chance``: draws the random part of this replica's identity.
        """
        super().__init__(api, settings, clock)
        self._identity = f"{settings.identity or socket.gethostname()}_{chance.getrandbits(64):016x}"
        self._prefix = self._identity
        # _expires is the value of clock.monotonic() at which the Lease of another holder expires, unless that holder
        # renews it.
        self._expires = 0.0

    async def look(self) -> None:
        """Read the Lease; renew it if it is ours, and take it if no replica holds it or it was not renewed for its
        whole duration.
        """
        asked = self._clock.monotonic()
        found = await self._read()
        if found is None:
            return
        spec = found.get("spec") or {}
        holder = str(spec.get("holderIdentity") or "")
        seen = (holder, str(spec.get("renewTime") or ""))
        if seen != self._seen:
            self._seen = seen
            self._expires = asked + DURATION_SECONDS
        if holder in ("", self._identity) or asked >= self._expires:
            await self._take(found, spec, holder, asked)
        else:
            self.holder = holder

    async def release(self) -> None:
        """Give the Lease back, so that another replica need not wait until it expires."""
        found = await self._read() if self.leading() else None
        self._good_until = 0.0
        if found is not None and (found.get("spec") or {}).get("holderIdentity") == self._identity:
            await self._write(found, {"holderIdentity": None, "renewTime": None})

    async def _read(self) -> Json | None:
        try:
            found = await self._api.get(self._ref)
        except ClusterError as error:
            self._note_error(str(error))
            return None
        if found is None:
            self._note_error("it does not exist; apply manifests/base, which creates it")
        else:
            self.error = ""
        return found

    def _note_error(self, why: str) -> None:
        if not self.error:
            _log.warning("lease %s/%s cannot be used: %s", self._ref.namespace, self._ref.name, why)
        self.error = why

    async def _take(self, found: Json, spec: Json, holder: str, asked: float) -> None:
        now = datetime.fromtimestamp(self._clock.now(), UTC).strftime(TIME)
        wanted: Json = {"holderIdentity": self._identity, "renewTime": now, "leaseDurationSeconds": DURATION_SECONDS}
        if holder != self._identity:
            transitions = spec.get("leaseTransitions")
            wanted |= {"acquireTime": now, "leaseTransitions": (transitions if isinstance(transitions, int) else 0) + 1}
        if await self._write(found, wanted):
            self.holder = self._identity
            self._good_until = asked + RENEW_SHARE * DURATION_SECONDS

    async def _write(self, found: Json, spec: Json) -> bool:
        """Patch the Lease, unless it was changed since we read it; tell whether we know that it was written.

        A lost answer counts as a failure; the next look shows whether the write was made.
        """
        version = str(found.get("metadata", {}).get("resourceVersion") or "")
        return isinstance(await self._api.patch(self._ref, {"spec": spec}, resource_version=version), Done)


def lease_of(api: Api, settings: LeaseSettings, clock: Clock, chance: random.Random) -> Lease:
    """Return the object that tells whether this replica leads: an `Election` where the settings ask for one, otherwise
    a `Lease` that follows the Lease of the kube-scheduler beside us.
    """
    return Election(api, settings, clock, chance) if settings.elect else Lease(api, settings, clock)
