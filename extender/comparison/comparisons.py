"""Runs comparisons on request in processes of their own, one at a time, and keeps the answers.

An answer is good while the ledger does not change. Since a busy cluster changes the ledger all the time, an answer is
also good for a while after it was found: the longer it took, the longer it is good.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from extender.comparison.comparingprocess import ComparisonAnswer, ComparisonRequest
from extender.config.settings import Settings
from extender.present.views.comparison import ComparisonView
from extender.state.ledger import Ledger
from policy.systems import make_policy

KEPT: Final = 16  # KEPT is the largest number of answers that are kept.
LEAST_REST: Final = 30.0  # LEAST_REST is the least number of seconds for which an answer is good.
# A comparison that is requested continually may run for at most SHARE of the time. Its answer is kept long enough for
# that.
SHARE: Final = 0.25
# A process that exceeds its allowed time by this many seconds is ended. Beside a busy service its start alone takes
# half a minute.
GRACE_SECONDS: Final = 60.0
_log = logging.getLogger(__name__)


class ComparisonError(Exception):
    """The comparison cannot be made, or has failed; the text says why and what to do."""


class UnknownPolicyError(ComparisonError):
    """No policy has the name that the user gave."""


@dataclass(frozen=True, slots=True)
class _Kept:
    found: ComparisonView
    until: float


class Comparisons:
    """Runs the policy comparisons that users ask this service for, one at a time, and keeps their answers."""

    def __init__(self, ledger: Ledger, settings: Callable[[], Settings]) -> None:
        self._ledger = ledger
        self._settings = settings
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._one_at_a_time = asyncio.Lock()

    @property
    def records(self) -> bool:
        """Tell whether the service writes a journal to disk, without which nothing can be compared."""
        return bool(self._settings().journal.folder)

    def known(self, policy: str) -> ComparisonView | None:
        """Return the kept comparison with that policy if it is still good, otherwise None."""
        kept, ledger = self._kept.get(policy), self._ledger
        if kept is None:
            return None
        good = kept.found.generation == ledger.snapshot.generation or ledger.clock.monotonic() < kept.until
        return kept.found if good else None

    async def compare(self, policy: str) -> ComparisonView:
        """Return how that policy would have decided on the recorded journal: a kept answer that is good, or a new one.

        Raises ComparisonError.
        """
        self.check(policy)
        if (found := self.known(policy)) is not None:
            return found
        async with self._one_at_a_time:
            if (found := self.known(policy)) is not None:
                return found
            ledger = self._ledger
            generation, began = ledger.snapshot.generation, ledger.clock.monotonic()
            found = (await self._ask(policy)).model_copy(update={"generation": generation})
            took = ledger.clock.monotonic() - began
            self._keep(policy, _Kept(found, began + took + max(LEAST_REST, took * (1 / SHARE - 1))))
            return found

    def check(self, policy: str) -> None:
        """Raise ComparisonError where the service writes no journal, or there is no policy of that name."""
        if not self.records:
            raise ComparisonError(
                "no journal is kept: set journal.folder to a folder that the service can write, and restart it"
            )
        try:
            make_policy(policy)
        except ValueError as error:
            raise UnknownPolicyError(str(error)) from None

    def _keep(self, policy: str, kept: _Kept) -> None:
        self._kept[policy] = kept
        self._kept.move_to_end(policy)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    async def _ask(self, policy: str) -> ComparisonView:
        settings = self._settings()
        journal, own = settings.journal, policy == settings.system
        request = ComparisonRequest(
            folder=journal.folder,
            policy=policy,
            parameters=settings.policy_parameters if own else {},
            seconds=journal.compare_seconds,
            bytes=journal.compare_bytes,
        )
        answer = await _process(request)
        if answer.found is None:
            raise ComparisonError(
                f"the journal in {journal.folder} cannot be compared: {answer.error}; see `kohort replay FILE`"
            )
        return answer.found


async def _process(request: ComparisonRequest) -> ComparisonAnswer:
    """Run a comparing process for the request and return its answer; the process never outlives this call.

    Raises ComparisonError.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "extender.comparison.comparingprocess", stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(request.seconds + GRACE_SECONDS):
            printed, complaint = await process.communicate(request.model_dump_json().encode())
    except TimeoutError:
        raise ComparisonError(
            f"comparing took longer than {request.seconds:g} s and was ended; raise journal.compare_seconds"
        ) from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode:
        _log.warning("the process that compares policies failed: %s", complaint.decode(errors="replace")[-2000:])
        raise ComparisonError(
            f"the process that compares ended with status {process.returncode}; see the service's log for its error"
        )
    return ComparisonAnswer.model_validate_json(printed)
