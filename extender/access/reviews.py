"""Asks the API server whose a token is (TokenReview) and what its owner may do (SubjectAccessReview).

Answers are kept for a short time and in bounded memory. A missing answer is not kept, and the request is then refused.
Few requests are sent to the API server at once, so that many unknown tokens cannot overload it. Tokens that were valid
before have a queue and a cache of their own, so that invalid tokens cannot displace them.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from extender.clock import Clock
from extender.kube.api import Done, Json, Outcome

POD_UID: Final = "authentication.kubernetes.io/pod-uid"
MOST_KEPT: Final = 10_000
REFUSED_SECONDS: Final = 10.0
AT_ONCE: Final = 4
WAITING: Final = 64  # requests that may wait for their turn
GROUP: Final = "kohort.dev"
RESOURCE: Final = "jobs"
VERB: Final = "list"
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ReviewsTokens(Protocol):
    """A client that can send a TokenReview."""

    async def review_token(self, token: str, audiences: Sequence[str]) -> Outcome:
        """Send a TokenReview. Return Done with the object, whose status says whose the token is."""
        ...


class ReviewsAccess(Protocol):
    """A client that can send a SubjectAccessReview."""

    async def review_access(self, spec: Json) -> Outcome:
        """Send a SubjectAccessReview. Return Done with the object, whose status says whether access is allowed."""
        ...


class Reviewer(ReviewsTokens, ReviewsAccess, Protocol):
    """A client that can send both reviews."""


class UnansweredError(Exception):
    """The API server did not answer; the text says why."""


class BusyError(Exception):
    """Too many requests wait for the API server already."""


@dataclass(frozen=True, slots=True)
class TokenOwner:
    """The owner of a token, as the API server names it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def pod_uid(self) -> str:
        """Return the UID of the pod for which the token was issued; empty where it was issued for none."""
        return next((values[0] for key, values in self.extra if key == POD_UID and values), "")

    @property
    def spec(self) -> Json:
        """Return the user as fields of a SubjectAccessReview's spec."""
        extra = {key: list(values) for key, values in self.extra}
        return {"user": self.name, "uid": self.uid, "groups": list(self.groups), "extra": extra}


class TimedCache(Generic[K, V]):
    """A cache of answers with a time to live; the least recently used answer is dropped first."""

    def __init__(self, clock: Clock, most: int = MOST_KEPT) -> None:
        self._clock = clock
        self._most = most
        self._known: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of answers, including those that have expired."""
        return len(self._known)

    def __contains__(self, key: K) -> bool:
        """Tell whether there is an answer, including one that has expired."""
        return key in self._known

    def get(self, key: K) -> V | None:
        """Return the answer, or None where there is none or it has expired."""
        value, until = self._known.get(key, (None, 0.0))
        if until <= self._clock.monotonic():
            return None
        self._known.move_to_end(key)
        return value

    def keep(self, key: K, value: V, seconds: float) -> V:
        """Store the answer for ``seconds`` and return it."""
        self._known[key] = value, self._clock.monotonic() + seconds
        self._known.move_to_end(key)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return value

    def forget(self, key: K) -> None:
        """Drop the answer."""
        self._known.pop(key, None)


class ConcurrencyLimit:
    """Limits how many requests run at once. A request that would wait behind too many others raises BusyError."""

    def __init__(self, at_once: int = AT_ONCE, waiting: int = WAITING) -> None:
        self._turns = asyncio.Semaphore(at_once)
        self._most = at_once + waiting
        self._here = 0

    async def __aenter__(self) -> None:
        if self._here >= self._most:
            raise BusyError
        self._here += 1
        try:
            await self._turns.acquire()
        except BaseException:
            self._here -= 1
            raise

    async def __aexit__(self, *_: object) -> None:
        self._here -= 1
        self._turns.release()


class Tokens:
    """Finds the owners of tokens.

    audiences: a token must be for one of them; where there are none, for the API server itself.
    """

    def __init__(
        self, reviewer: ReviewsTokens, clock: Clock, audiences: Sequence[str], seconds: float, waiting: int = WAITING
    ) -> None:
        """Prepare only. ``seconds``: how long an answer is valid."""
        self._reviewer = reviewer
        self._audiences = tuple(audiences)
        self._seconds = seconds
        self._owned: TimedCache[bytes, TokenOwner] = TimedCache(clock)
        self._refused: TimedCache[bytes, TokenOwner] = TimedCache(clock)
        self._first, self._again = ConcurrencyLimit(waiting=waiting), ConcurrencyLimit(waiting=waiting)

    async def owner(self, token: str) -> TokenOwner | None:
        """Return the owner of the token, or None where it is invalid or for another audience.

        Raise UnansweredError or BusyError where the API server was not asked or did not answer.
        """
        key = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        known = self._known(key)
        if known is None:
            async with self._again if key in self._owned else self._first:
                known = self._known(key) or await self._review(key, token)
        return known if known.name else None

    def _known(self, key: bytes) -> TokenOwner | None:
        return self._owned.get(key) or self._refused.get(key)

    async def _review(self, key: bytes, token: str) -> TokenOwner:
        outcome = await self._reviewer.review_token(token, self._audiences)
        if not isinstance(outcome, Done):
            raise UnansweredError(f"the API server cannot review the token now ({_why(outcome)})")
        user = self._user(outcome.body.get("status") or {})
        if user.name:
            return self._owned.keep(key, user, self._seconds)
        self._owned.forget(key)
        return self._refused.keep(key, user, min(self._seconds, REFUSED_SECONDS))

    def _user(self, status: Mapping[str, Any]) -> TokenOwner:
        """Return the user that the TokenReview's status names; an empty user where the audience is another one."""
        for_us = not self._audiences or set(self._audiences) & set(status.get("audiences") or ())
        if status.get("authenticated") is not True or not for_us:
            return TokenOwner("")
        told = status.get("user") or {}
        extra = sorted((str(key), tuple(map(str, values or ()))) for key, values in (told.get("extra") or {}).items())
        groups = tuple(map(str, told.get("groups") or ()))
        return TokenOwner(str(told.get("username") or ""), str(told.get("uid") or ""), groups, tuple(extra))


class Rights:
    """Finds out who may ``list`` ``jobs.kohort.dev`` in which namespace.

    No API server serves that resource; it exists so that RBAC rules can name it.
    """

    def __init__(self, reviewer: ReviewsAccess, clock: Clock, seconds: float) -> None:
        """Prepare only. ``seconds``: how long an answer is valid."""
        self._reviewer = reviewer
        self._seconds = seconds
        self._kept: TimedCache[tuple[TokenOwner, str], bool] = TimedCache(clock)
        self._turns = ConcurrencyLimit(waiting=MOST_KEPT)

    async def may(self, user: TokenOwner, namespace: str) -> bool:
        """Tell whether the user has the right in the namespace; empty: in all namespaces.

        Raise UnansweredError or BusyError where the API server was not asked or did not answer.
        """
        known = self._kept.get((user, namespace))
        if known is None:
            async with self._turns:
                known = self._kept.get((user, namespace))
                if known is None:
                    known = await self._review(user, namespace)
        return known

    async def _review(self, user: TokenOwner, namespace: str) -> bool:
        wanted = {"verb": VERB, "group": GROUP, "resource": RESOURCE, **({"namespace": namespace} if namespace else {})}
        outcome = await self._reviewer.review_access({**user.spec, "resourceAttributes": wanted})
        if not isinstance(outcome, Done):
            raise UnansweredError(f"the API server cannot say now what {user.name} may read ({_why(outcome)})")
        status = outcome.body.get("status") or {}
        allowed = status.get("allowed") is True and status.get("denied") is not True
        return self._kept.keep((user, namespace), allowed, self._seconds)


def _why(outcome: Outcome) -> str:
    """Return the API server's message, for the text of the error.

    It may speak of the rights of Kohort's own account, which are no secret.
    """
    return str(getattr(outcome, "message", "") or getattr(outcome, "why", "") or getattr(outcome, "reason", ""))[:200]
