"""kube-scheduler's leader election as in client-go: the leader renews its Lease, or ends when it cannot.

If the extenders elect their own leader (`lease.elect`), kube-scheduler has a Lease of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from extender.config.sections import LeaseSettings
from extender.kube.api import LEASES, ClusterError, Done, Json, Ref

if TYPE_CHECKING:
    from tests.simulation.processes import SchedulerProcess

DURATION: Final = 15  # the Lease's leaseDurationSeconds
DEADLINE: Final = 10.0  # kube-scheduler's renewDeadline, in seconds
# kube-scheduler's retryPeriod, in seconds; a candidate waits up to 2.2 times as long between two tries
RETRY: Final = 2.0


def lease_of_scheduler(settings: LeaseSettings) -> Ref:
    """Return the reference of the Lease by which kube-schedulers elect their leader.

    If the kube-schedulers are in Kohort's own pods, this Lease also decides which replica of Kohort leads.
    """
    return Ref(LEASES, settings.namespace, LeaseSettings().name if settings.elect else settings.name)


class Elector:
    """One candidate in the election. It takes over the Lease of another candidate if the Lease has not changed for its
    whole duration.

    The duration is measured by the candidate's own clock.
    """

    def __init__(self, process: SchedulerProcess) -> None:
        self.leads = False
        self.identity = f"{process.replica}_{process.incarnation}"
        self._process = process
        self._line, self._clock, self._chance = process.line, process.clock, process.chance
        self._ref = lease_of_scheduler(process.settings.lease)
        self._seen: Json = {}
        self._seen_at = 0.0

    async def acquire(self) -> None:
        """Wait until this candidate holds the Lease."""
        while not await self._try():
            await self._clock.sleep(RETRY * self._chance.uniform(1.0, 2.2))
        self.leads = True

    async def hold(self) -> None:
        """Renew the Lease again and again, and return when a renewal did not succeed before the deadline.

        If the process was paused until after the deadline, that counts as a failure, too.
        """
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
