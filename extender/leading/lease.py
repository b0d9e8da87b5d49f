"""Tells whether this replica leads: it does while kube-scheduler's own Lease names the scheduler beside it and is
renewed.

A "look" is one read of the Lease. The Lease's times come from another machine's wall clock, so they are only checked
for changes. If a look finds a new renewal, the look before did not show it, so the renewal is not older than the
beginning of the look before. The renewal's age is counted from then, by our monotonic clock. The very first look proves
nothing, because there is no look before it. After a pause of this process we do not lead until a look proves that we
do.

A follower looks most often while the Lease has expired and another scheduler is about to take it, and at once when the
kube-scheduler beside it calls, because that scheduler calls only while it leads.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final, Protocol

from extender.clock import Clock
from extender.config.sections import LeaseSettings
from extender.kube.api import LEASES, Api, ClusterError, Json, Ref

EVERYBODY: Final = "*"
"""The identity with which this process always leads, where no kube-scheduler elects a leader (embedded cluster,
tests).
"""
LOOK_SECONDS: Final = 2.0
# This many seconds pass between looks while a renewal is overdue, or while the Lease names us and we have not seen its
# renewal yet.
SOON_SECONDS: Final = 0.5
# This many seconds pass between looks while the Lease has expired and a kube-scheduler is about to take it.
QUICK_SECONDS: Final = 0.1
# Looks are made every `QUICK_SECONDS` for this many seconds after the Lease has expired: two retries of a
# kube-scheduler, and some margin.
TAKING_SECONDS: Final = 15.0
# We count as leading for this share of the Lease's duration after a renewal. kube-scheduler stops leading when it has
# not renewed for renewDeadline, by default 10 s of the Lease's 15 s. That value is not in the Lease; two thirds of the
# duration end before another scheduler may take the Lease.
RENEW_SHARE: Final = 2 / 3
DURATION_SECONDS: Final = 15
_log = logging.getLogger(__name__)


class Leads(Protocol):
    """Tells each writer, before it writes, whether this replica leads."""

    @property
    def name(self) -> str:
        """Return the part of the Lease's holderIdentity before the underscore while this replica leads."""

    def leading(self) -> bool:
        """Tell whether this replica leads, and so may write, now."""

    async def check(self) -> None:
        """Read the Lease again; needed before a write for which the API server cannot check that its sender leads."""


class Lease:
    """Reads kube-scheduler's Lease every few seconds and tells whether this replica leads; `leading` answers from the
    last look without waiting.
    """

    def __init__(self, api: Api, settings: LeaseSettings, clock: Clock) -> None:
        """Start without leading, until reads of the Lease have found a renewal. With the identity `EVERYBODY` this
        replica always leads.
        """
        self.holder = ""
        self.error = ""
        self._always = settings.identity == EVERYBODY
        self.name = "" if self._always else settings.identity or socket.gethostname()
        self._prefix = f"{self.name}_"
        self._ref = Ref(LEASES, settings.namespace, settings.name)
        self._api = api
        self._clock = clock
        # The lock is held during a read of the Lease, so that reads do not overtake one another.
        self._looking = asyncio.Lock()
        # The reads of the Lease that `check` makes are numbered; these are the numbers of the last read that began and
        # of the last that ended.
        self._begun = self._ended = 0
        self._checked = -QUICK_SECONDS  # _checked is the value of clock.monotonic() when the last check ended
        self._reported: bool | None = None
        self._on_change: Callable[[bool], object] = lambda leading: None
        # _seen has the holder and the renewTime that the last look found in the Lease
        self._seen: tuple[str, str] | None = None
        # _looked is the value of clock.monotonic() before the last look that got an answer
        self._looked: float | None = None
        # from this value of clock.monotonic() on, the last renewal that was seen no longer counts
        self._good_until = 0.0
        self._lapses = 0.0  # before this value of clock.monotonic() no other scheduler may take the Lease

    @property
    def _ours(self) -> bool:
        return self.holder.startswith(self._prefix)

    def leading(self) -> bool:
        """Tell whether this replica leads now, by the last renewal that was seen."""
        return self._always or (self._ours and self._clock.monotonic() < self._good_until)

    async def run(self, on_change: Callable[[bool], object] = lambda leading: None) -> None:
        """Read the Lease regularly until cancelled; call ``on_change`` with whether we lead, at the start and at each
        change.
        """
        self._on_change = on_change
        self._report_change()
        while True:
            await self.check()
            await self._clock.sleep(self._pause())

    async def check(self) -> None:
        """Read the Lease once, and report a change of leadership. Concurrent callers share one read that began after
        they called.
        """
        wanted = self._begun + 1
        async with self._looking:
            if self._ended < wanted:
                self._begun += 1
                await self.look()
                self._ended = self._begun
        self._checked = self._clock.monotonic()
        self._report_change()

    async def on_scheduler_call(self) -> None:
        """Read the Lease at once because the kube-scheduler beside us called, unless we already lead or have just read
        it.
        """
        if not self.leading() and self._clock.monotonic() - self._checked >= QUICK_SECONDS:
            await self.check()

    def _report_change(self) -> None:
        leading = self.leading()
        if leading == self._reported:
            return
        if self._reported is not None:
            which = "now leads" if leading else "no longer leads"
            _log.info("this replica %s; the lease is held by %s", which, self.holder or "no pod")
        self._reported = leading
        self._on_change(leading)

    def _pause(self) -> float:
        """Return the seconds to wait before the next look."""
        now = self._clock.monotonic()
        if self._always or self._reported or (now < self._good_until and not self._ours):
            return LOOK_SECONDS
        return QUICK_SECONDS if self._lapses <= now < self._lapses + TAKING_SECONDS else SOON_SECONDS

    async def look(self) -> None:
        """Read the Lease once, and record its holder and whether the holder has renewed it.

        The age of a new renewal is counted from the beginning of the read before, which did not show the renewal.
        """
        if self._always:
            return
        asked = self._clock.monotonic()
        try:
            found = await self._api.get(self._ref)
        except ClusterError as error:
            if not self.error:
                _log.warning("lease %s/%s cannot be read: %s", self._ref.namespace, self._ref.name, error)
            self.error = str(error)
            return
        self.error = ""
        self._note(_spec(found), asked)

    async def release(self) -> None:
        """Do nothing, because this Lease belongs to kube-scheduler; `Election` overrides this."""

    def _note(self, spec: Json, asked: float) -> None:
        self.holder = str(spec.get("holderIdentity") or "")
        seen = (self.holder, str(spec.get("renewTime") or ""))
        if seen != self._seen and self._looked is not None:
            self._good_until = self._looked + RENEW_SHARE * _duration(spec)
            self._lapses = self._looked + _duration(spec)
        self._seen, self._looked = seen, asked


def _spec(lease: Json | None) -> Json:
    spec = (lease or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def _duration(spec: Json) -> float:
    seconds = spec.get("leaseDurationSeconds")
    return seconds if isinstance(seconds, int) and not isinstance(seconds, bool) and seconds > 0 else DURATION_SECONDS
