"""Tells whether this replica leads: it does while kube-scheduler's own Lease names the scheduler beside it and is
renewed.

The Lease's times are another machine's wall clock, so they are only checked for changes. What counts is, by our
monotonic clock, when a look last found the Lease not yet renewed: the renewal that a later look finds is at least as
young as that. The first look says nothing about the age of the renewal that it finds, and so proves nothing. After a
pause of this process the answer is no until a look proves otherwise.

A follower looks most often while the Lease has expired and somebody is about to take it, and at once when the
kube-scheduler beside it calls: that scheduler calls only while it leads.
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
SOON_SECONDS: Final = 0.5  # while a renewal is overdue, or the Lease names us and we have not seen its renewal yet
QUICK_SECONDS: Final = 0.1  # while the Lease has expired and a kube-scheduler is about to take it
TAKING_SECONDS: Final = 15.0  # how long that lasts: two of its retries, and some margin
# kube-scheduler stops when it has not renewed for renewDeadline, by default 10 s of the Lease's 15 s. That value is not
# in the Lease; two thirds of its duration end before any rival may take it over.
RENEW_SHARE: Final = 2 / 3
DURATION_SECONDS: Final = 15
_log = logging.getLogger(__name__)


class Leads(Protocol):
    """The question that every writer asks before a write: whether this replica leads."""

    @property
    def name(self) -> str:
        """Return the part of the Lease's holderIdentity before the underscore while this replica leads."""
        ...

    def leading(self) -> bool:
        """Tell whether this replica may write now."""
        ...

    async def check(self) -> None:
        """Read the Lease again, before a write whose author the API server cannot check."""
        ...


class Lease:
    """Reads the Lease every few seconds; `leading` never waits."""

    def __init__(self, api: Api, settings: LeaseSettings, clock: Clock) -> None:
        """Lead nothing until the first look, unless the identity is `EVERYBODY`."""
        self.holder = ""
        self.error = ""
        self._always = settings.identity == EVERYBODY
        self.name = "" if self._always else settings.identity or socket.gethostname()
        self._prefix = f"{self.name}_"
        self._ref = Ref(LEASES, settings.namespace, settings.name)
        self._api = api
        self._clock = clock
        self._looking = asyncio.Lock()  # looks must not overtake one another
        self._begun = self._ended = 0  # numbers of the last look of `check` that began, and of the last that ended
        self._checked = -QUICK_SECONDS  # clock.monotonic() at the end of the last check
        self._told: bool | None = None
        self._tell: Callable[[bool], object] = lambda leading: None
        self._seen: tuple[str, str] | None = None  # holder and renewTime at the last look
        self._looked: float | None = None  # clock.monotonic() before the last look that had an answer
        self._good_until = 0.0  # clock.monotonic()
        self._lapses = 0.0  # clock.monotonic() before which nobody else may take the Lease over

    @property
    def _ours(self) -> bool:
        return self.holder.startswith(self._prefix)

    def leading(self) -> bool:
        """Tell whether this replica leads now, by the last renewal that was seen."""
        return self._always or (self._ours and self._clock.monotonic() < self._good_until)

    async def run(self, tell: Callable[[bool], object] = lambda leading: None) -> None:
        """Look for ever; call ``tell`` with whether we lead, at the start and at each change."""
        self._tell = tell
        self._say()
        while True:
            await self.check()
            await self._clock.sleep(self._pause())

    async def check(self) -> None:
        """Look, and report a change of leadership. Concurrent callers share one look that began after they called."""
        wanted = self._begun + 1
        async with self._looking:
            if self._ended < wanted:
                self._begun += 1
                await self.look()
                self._ended = self._begun
        self._checked = self._clock.monotonic()
        self._say()

    async def asked(self) -> None:
        """Look because the kube-scheduler beside us called, unless we lead as far as we know or have just looked."""
        if not self.leading() and self._clock.monotonic() - self._checked >= QUICK_SECONDS:
            await self.check()

    def _say(self) -> None:
        leading = self.leading()
        if leading == self._told:
            return
        if self._told is not None:
            which = "now leads" if leading else "no longer leads"
            _log.info("this replica %s; the lease is held by %s", which, self.holder or "nobody")
        self._told = leading
        self._tell(leading)

    def _pause(self) -> float:
        """Return seconds until the next look."""
        now = self._clock.monotonic()
        if self._always or self._told or (now < self._good_until and not self._ours):
            return LOOK_SECONDS
        return QUICK_SECONDS if self._lapses <= now < self._lapses + TAKING_SECONDS else SOON_SECONDS

    async def look(self) -> None:
        """Read the Lease once. A new renewal counts from the start of the look before, which did not show it yet."""
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
        """Do nothing, because the Lease is kube-scheduler's."""

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
