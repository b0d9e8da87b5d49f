"""Reports to the extender the writes that the API server keeps refusing, so that the extender can say why a job waits.

A single refusal, which may be temporary, is not reported. Whenever the list of refused writes changes, the whole list
is sent, so that a lost message, or a restart of either process, leaves nothing outdated behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from extender.clock import Clock
from extender.control.callkinds import Call, MarkNode, SetGate
from extender.control.calls import Key, key
from extender.control.extenderrest import ExtenderError, Post
from extender.kube.api import Done, Outcome, Refused, Unknown
from extender.leading.lease import Leads
from extender.present.views.refused import MOST_REFUSED, RefusedBody, RefusedWritesBody
from policy.cluster.refusedwrite import shortened

REFUSED: Final = 2
PASSING: Final = 5
"""After how many refusals in a row a write is reported. `REFUSED` is for a refusal that would be repeated, `PASSING`
for one after which the write may succeed later (a conflict, a lost answer).
"""
PATH: Final = "/v1/refused-writes"
RETRY_SECONDS: Final = 1.0
# Calls of these kinds are reported first if more calls are refused than the extender accepts in one report.
OF_JOBS: Final = ("SetReplicas", "Suspend", "SetGate")


class RefusalReports:
    """Counts for each write how often in a row it was refused, and reports to the extender the writes that keep being
    refused.
    """

    def __init__(self, post: Post, seconds: float, clock: Clock, lease: Leads) -> None:
        """Prepare reports, which are sent once `run` is called. ``seconds``: the time limit for sending one report."""
        self._post = post
        self._seconds = seconds
        self._clock = clock
        self._lease = lease
        self._counts: dict[Key, int] = {}
        self._reported: dict[Key, RefusedBody] = {}
        self._instance = ""
        self._last: tuple[str, RefusedWritesBody] | None = None
        self._changed = asyncio.Event()

    def note(self, call: Call, outcome: Outcome) -> None:
        """Count a refusal of the call, or forget its refusals where the outcome is a success."""
        written = key(call)
        if isinstance(outcome, Done):
            self._forget(written)
            return
        count = self._counts[written] = self._counts.get(written, 0) + 1
        lasting = _is_lasting(call, outcome)
        if count >= (REFUSED if lasting else PASSING):
            write, uid = written
            namespace = "" if isinstance(call, SetGate | MarkNode) else call.order.namespace
            words = shortened(outcome.words)
            report = RefusedBody(write=write, namespace=namespace, uid=uid, message=words, lasting=lasting)
            self._reported[written] = report
            self._changed.set()

    def keep(self, wanted: Collection[Key], instance: str) -> None:
        """Forget the refusals of writes that are no longer wanted.

        ``instance``: identifies the extender's process; a new process is sent the whole list.
        """
        for written in [one for one in self._counts if one not in wanted]:
            self._forget(written)
        if instance != self._instance:
            self._instance = instance
            self._changed.set()

    def resend(self) -> None:
        """Make `run` send the whole list again.

        This is needed when this replica becomes the leader, because the extender ignored earlier reports.
        """
        self._last = None
        self._changed.set()

    def _forget(self, written: Key) -> None:
        self._counts.pop(written, None)
        if self._reported.pop(written, None) is not None:
            self._changed.set()

    async def run(self) -> None:
        """Send the list of refused writes whenever it has changed, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            now = self._instance, self._body()
            if not self._instance or now == self._last or not self._lease.leading():
                continue
            try:
                await self._post(PATH, now[1].model_dump_json().encode(), self._seconds)
                self._last = now
            except ExtenderError:
                await self._clock.sleep(RETRY_SECONDS)
                self._changed.set()

    def _body(self) -> RefusedWritesBody:
        first = sorted(self._reported.values(), key=lambda one: one.write not in OF_JOBS)
        return RefusedWritesBody(refused=tuple(first[:MOST_REFUSED]))


def _is_lasting(call: Call, outcome: Refused | Unknown) -> bool:
    """Tell whether the API server would refuse the same write again.

    It may accept the write later after a conflict, a refusal for a PodDisruptionBudget, an expired credential or a lost
    answer. It would deny it again if admission has denied it, whatever the status of that denial.
    """
    if isinstance(outcome, Refused) and outcome.denied:
        return True
    if not isinstance(outcome, Refused) or (outcome.outdated and not isinstance(call, SetGate)):
        return False
    return 400 <= outcome.status < 500 and outcome.status not in (401, 429)
