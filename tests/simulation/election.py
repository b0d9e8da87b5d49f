"""kube-scheduler's leader election, as client-go has it: who renews leads, who cannot renew in time ends.

Where the extenders elect their leader among themselves (`lease.elect`), kube-scheduler's Lease is another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from extender.config.sections import LeaseSettings
from extender.kube.api import LEASES, ClusterError, Done, Json, Ref

if TYPE_CHECKING:
    from tests.simulation.processes import SchedulerProcess

DURATION: Final = 15  # leaseDurationSeconds
DEADLINE: Final = 10.0  # renewDeadline
RETRY: Final = 2.0  # retryPeriod; while waiting for the Lease it is up to 1.2 times as long again


def lease_of_scheduler(settings: LeaseSettings) -> Ref:
    """The Lease for which kube-schedulers stand: where they are in our pods it also says who of us leads."""
    return Ref(LEASES, settings.namespace, LeaseSettings().name if settings.elect else settings.name)


class Elector:
    """One candidate. Another's Lease is free once it has not changed for its whole duration, by our own clock."""

    def __init__(self, process: SchedulerProcess) -> None:
        self.leads = False
        self.identity = f"{process.replica}_{process.incarnation}"
        self._process = process
        self._line, self._clock, self._chance = process.line, process.clock, process.chance
        self._ref = lease_of_scheduler(process.settings.lease)
        self._seen: Json = {}
        self._seen_at = 0.0

    async def acquire(self) -> None:
        """Return once the Lease is ours."""
        while not await self._try():
            await self._clock.sleep(RETRY * self._chance.uniform(1.0, 2.2))
        self.leads = True

    async def hold(self) -> None:
        """Renew; return when that has failed for too long. A pause counts: its timer is over when it ends."""
        renewed = self._clock.monotonic()
        while self._clock.monotonic() - renewed < DEADLINE:
            asked = self._clock.monotonic()
            if await self._try():
                renewed = asked
            await self._clock.sleep(RETRY)
        self.leads = False

    async def _try(self) -> bool:
        try:
            found = await self._line.get(self._ref)
        except ClusterError:
            return False
        assert found is not None, "the Lease is made before the replicas start"
        spec: Json = found.get("spec") or {}
        now, holder = self._clock.monotonic(), spec.get("holderIdentity")
        if spec != self._seen:
            self._seen, self._seen_at = spec, now
        if holder not in (None, "", self.identity) and now - self._seen_at < DURATION:
            return False
        renewal = {
            "holderIdentity": self.identity, "renewTime": f"{self._clock.now():.6f}", "leaseDurationSeconds": DURATION
        }  # fmt: skip
        version = found["metadata"]["resourceVersion"]
        return isinstance(await self._line.renew(self._ref, renewal, version), Done)
