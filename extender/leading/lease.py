"""Whether this replica leads: it does while kube-scheduler's own Lease names the scheduler beside it and is renewed.

The Lease's times are another machine's wall clock, so they are only compared for change: what counts is how long ago,
by our monotonic clock, a look last found it not yet renewed. A renewal is at least that young; the first look says
nothing of its age, and so proves nothing. After a pause of this process the answer is No until a look says Yes.
"""

from __future__ import annotations

import logging
import socket
from typing import Final, Protocol

from extender.clock import Clock
from extender.config.settings import Lease as LeaseSettings
from extender.kube.api import LEASES, Api, ClusterError, Json, Ref
from policy.cluster.events import Event, Led

EVERYBODY: Final = "*"
"""As identity: this process always leads, where no kube-scheduler elects anybody (embedded cluster, tests)."""
LOOK_SECONDS: Final = 2.0
SOON_SECONDS: Final = 0.5  # while a renewal is overdue, or the Lease names us and its renewal is still to be seen
# kube-scheduler stops when it has not renewed for renewDeadline, by default 10 s of the Lease's 15 s. It is not in the
# Lease; two thirds of the duration end before any rival may take over.
RENEW_SHARE: Final = 2 / 3
DURATION_SECONDS: Final = 15
_log = logging.getLogger(__name__)


class Leads(Protocol):
    """What the writers ask before each write."""

    @property
    def name(self) -> str:
        """What the Lease's holderIdentity begins with, before an underscore, while this replica leads."""
        ...

    def leading(self) -> bool:
        """Tell whether this replica may write now."""
        ...


class Steps(Protocol):
    """The ledger, as far as leadership goes."""

    def step(self, *events: Event) -> object:
        """Apply events."""
        ...


class Lease:
    """Looks at the Lease every few seconds; `leading` never waits."""

    def __init__(self, api: Api, settings: LeaseSettings, clock: Clock, look_seconds: float = LOOK_SECONDS) -> None:
        """Lead nobody until the first look, unless the identity is `EVERYBODY`."""
        self.holder = ""
        self.error = ""
        self._always = settings.identity == EVERYBODY
        self.name = "" if self._always else settings.identity or socket.gethostname()
        self._prefix = f"{self.name}_"
        self._ref = Ref(LEASES, settings.namespace, settings.name)
        self._api = api
        self._clock = clock
        self._look_seconds = look_seconds
        self._seen: tuple[str, str] | None = None  # holder and renewTime as last seen
        self._looked: float | None = None  # clock.monotonic(), before the last look that had an answer
        self._good_until = 0.0  # clock.monotonic()

    @property
    def _ours(self) -> bool:
        return self.holder.startswith(self._prefix)

    def leading(self) -> bool:
        """Tell whether this replica leads now, by the last renewal that was seen."""
        return self._always or (self._ours and self._clock.monotonic() < self._good_until)

    async def run(self, ledger: Steps | None = None) -> None:
        """Look for ever; tell the ledger at the start and at each change."""
        told = self.leading()
        _tell(ledger, told)
        while True:
            await self.look()
            if self.leading() != told:
                told = not told
                _log.info(
                    "%s leading; the lease is held by %s", "now" if told else "no longer", self.holder or "nobody"
                )
                _tell(ledger, told)
            overdue = not self._always and self._clock.monotonic() >= self._good_until
            soon = (self._ours or overdue) and not told
            await self._clock.sleep(min(SOON_SECONDS, self._look_seconds) if soon else self._look_seconds)

    async def look(self) -> None:
        """Read the Lease once. A renewal counts from the question before, which did not show it yet."""
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
        """Nothing: the Lease is kube-scheduler's."""

    def _note(self, spec: Json, asked: float) -> None:
        self.holder = str(spec.get("holderIdentity") or "")
        seen = (self.holder, str(spec.get("renewTime") or ""))
        if seen != self._seen and self._looked is not None:
            self._good_until = self._looked + RENEW_SHARE * _duration(spec)
        self._seen, self._looked = seen, asked


def _tell(ledger: Steps | None, leading: bool) -> None:
    if ledger is not None:
        ledger.step(Led(leading))


def _spec(lease: Json | None) -> Json:
    spec = (lease or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def _duration(spec: Json) -> float:
    seconds = spec.get("leaseDurationSeconds")
    return seconds if isinstance(seconds, int) and not isinstance(seconds, bool) and seconds > 0 else DURATION_SECONDS
