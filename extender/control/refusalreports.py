"""Reports to the extender the writes that the API server keeps refusing, so that it can say why a job waits.

A single refusal may be temporary, and the write is only repeated. The whole list is sent whenever it changes, so that a
lost message, or a restart of either process, leaves nothing outdated behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from extender.clock import Clock
from extender.control.calls import Call, Key, SetGate, key
from extender.control.extenderrest import ExtenderError, Post
from extender.kube.api import Done, Outcome, Refused, Unknown
from extender.leading.lease import Leads
from extender.present.views.refused import MOST_REFUSED, RefusedBody, RefusedWritesBody
from policy.cluster.refusedwrite import shortened

REFUSED: Final = 2
PASSING: Final = 5
"""Refusals in a row before a write is reported: `REFUSED` for one that is refused for good, `PASSING` for one that may
succeed later (a conflict, a lost answer).
"""
PATH: Final = "/v1/refused-writes"
RETRY_SECONDS: Final = 1.0
OF_JOBS: Final = ("SetReplicas", "Suspend", "SetGate")  # reported first, where there are more than the extender takes


class RefusalReports:
    """Counts refusals in a row of each write, and reports to the extender those that go on."""

    def __init__(self, tell: Post, seconds: float, clock: Clock, lease: Leads) -> None:
        """Prepare only; `run` starts. ``seconds``: how long to wait for the extender."""
        self._tell = tell
        self._seconds = seconds
        self._clock = clock
        self._lease = lease
        self._counts: dict[Key, int] = {}
        self._told: dict[Key, RefusedBody] = {}
        self._instance = ""
        self._last: tuple[str, RefusedWritesBody] | None = None
        self._stir = asyncio.Event()

    def note(self, call: Call, outcome: Outcome) -> None:
        """Take in the outcome of a write."""
        written = key(call)
        if isinstance(outcome, Done):
            self._forget(written)
            return
        count = self._counts[written] = self._counts.get(written, 0) + 1
        lasting = _is_lasting(call, outcome)
        if count >= (REFUSED if lasting else PASSING):
            write, uid = written
            namespace = "" if isinstance(call, SetGate) else call.order.namespace
            words = shortened(outcome.words)
            told = RefusedBody(write=write, namespace=namespace, uid=uid, message=words, lasting=lasting)
            self._told[written] = told
            self._stir.set()

    def keep(self, wanted: Collection[Key], instance: str) -> None:
        """Forget writes that are no longer wanted. ``instance``: of the extender; a new one gets the whole list."""
        for written in [one for one in self._counts if one not in wanted]:
            self._forget(written)
        if instance != self._instance:
            self._instance = instance
            self._stir.set()

    def anew(self) -> None:
        """Send the whole list again, because this replica leads now: the extender ignored what it got before."""
        self._last = None
        self._stir.set()

    def _forget(self, written: Key) -> None:
        self._counts.pop(written, None)
        if self._told.pop(written, None) is not None:
            self._stir.set()

    async def run(self) -> None:
        """Send the list whenever it has changed, until cancelled."""
        while True:
            await self._stir.wait()
            self._stir.clear()
            now = self._instance, self._body()
            if not self._instance or now == self._last or not self._lease.leading():
                continue
            try:
                await self._tell(PATH, now[1].model_dump_json().encode(), self._seconds)
                self._last = now
            except ExtenderError:
                await self._clock.sleep(RETRY_SECONDS)
                self._stir.set()

    def _body(self) -> RefusedWritesBody:
        first = sorted(self._told.values(), key=lambda one: one.write not in OF_JOBS)
        return RefusedWritesBody(refused=tuple(first[:MOST_REFUSED]))


def _is_lasting(call: Call, outcome: Refused | Unknown) -> bool:
    """Tell whether the same write would be refused again; a conflict, a budget, a credential or a lost answer may
    pass.
    """
    if not isinstance(outcome, Refused) or (outcome.outdated and not isinstance(call, SetGate)):
        return False
    return 400 <= outcome.status < 500 and outcome.status not in (401, 429)
