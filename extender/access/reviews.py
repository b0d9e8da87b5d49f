"""Asks the API server whose a token is (TokenReview) and what its owner may do (SubjectAccessReview).

Answers are cached for a short time, in bounded memory. If the API server does not answer, the request is refused and
nothing is cached. Few reviews are sent to the API server at once, so that many unknown tokens cannot overload it.
Tokens that were valid before have a queue and a cache of their own, so that invalid tokens cannot displace them.
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
WAITING: Final = 64  # WAITING is the largest number of reviews that wait until they can be sent
GROUP: Final = "kohort.dev"
RESOURCE: Final = "jobs"
VERB: Final = "list"
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ReviewsTokens(Protocol):
    """A client that can send a TokenReview."""

    async def review_token(self, token: str, audiences: Sequence[str]) -> Outcome:
        """Send a TokenReview. Return Done with the object, whose status says whose the token is."""


class ReviewsAccess(Protocol):
    """A client that can send a SubjectAccessReview."""

    async def review_access(self, spec: Json) -> Outcome:
        """Send a SubjectAccessReview. Return Done with the object, whose status says whether access is allowed."""


class Reviewer(ReviewsTokens, ReviewsAccess, Protocol):
    """A client that can send a TokenReview and a SubjectAccessReview."""


class UnansweredError(Exception):
    """The API server did not answer; the text says why."""


class BusyError(Exception):
    """The review was not sent, because too many other reviews wait to be sent already."""


@dataclass(frozen=True, slots=True)
class TokenOwner:
    """The user who owns a token, as the API server's TokenReview names it; an empty name: the token is not valid."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def pod_uid(self) -> str:
        """Return the UID of the pod for which the token was issued; empty if it was issued for none."""
        return next((values[0] for key, values in self.extra if key == POD_UID and values), "")

    @property
    def spec(self) -> Json:
        """Return the user as fields of a SubjectAccessReview's spec."""
        extra = {key: list(values) for key, values in self.extra}
        return {"user": self.name, "uid": self.uid, "groups": list(self.groups), "extra": extra}


class TimedCache(Generic[K, V]):
    """A cache of answers with a time to live. When it is full, it drops the answer that was used longest ago."""

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
        """Return the answer, or None if there is none or it has expired."""
        value, until = self._known.get(key, (None, 0.0))
        if until <= self._clock.monotonic():
            return None
        self._known.move_to_end(key)
        return value

    def keep(self, key: K, value: V, seconds: float) -> V:
        """Store the answer for ``seconds`` seconds, and return it."""
        self._known[key] = value, self._clock.monotonic() + seconds
        self._known.move_to_end(key)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return value

    def forget(self, key: K) -> None:
        """Remove the key's answer from the cache."""
        self._known.pop(key, None)


class ConcurrencyLimit:
    """A context manager that limits how many requests run at once.

    Entering it waits for a turn, and raises BusyError if ``waiting`` requests wait already.
    """

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

    audiences: a token must be issued for one of them; if there are none, for the API server itself.
    """

    def __init__(
        self, reviewer: ReviewsTokens, clock: Clock, audiences: Sequence[str], seconds: float, waiting: int = WAITING
    ) -> None:
        """Store the arguments. ``seconds``: how long an answer is valid; ``waiting``: how many reviews may wait."""
        self._reviewer = reviewer
        self._audiences = tuple(audiences)
        self._seconds = seconds
        self._owned: TimedCache[bytes, TokenOwner] = TimedCache(clock)
        self._refused: TimedCache[bytes, TokenOwner] = TimedCache(clock)
        self._first, self._again = ConcurrencyLimit(waiting=waiting), ConcurrencyLimit(waiting=waiting)

    async def owner(self, token: str) -> TokenOwner | None:
        """Return the owner of the token, or None if the token is invalid or for another audience.

        Raise BusyError if the API server was not asked, and UnansweredError if it did not answer.
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
        """Return the user in a TokenReview's status; an empty one if the token is invalid or for another audience."""
        for_us = not self._audiences or set(self._audiences) & set(status.get("audiences") or ())
        if status.get("authenticated") is not True or not for_us:
            return TokenOwner("")
        told = status.get("user") or {}
        extra = sorted((str(key), tuple(map(str, values or ()))) for key, values in (told.get("extra") or {}).items())
        groups = tuple(map(str, told.get("groups") or ()))
        return TokenOwner(str(told.get("username") or ""), str(told.get("uid") or ""), groups, tuple(extra))


class Rights:
    """Finds out whether a user may read a namespace: whether RBAC lets the user ``list`` ``jobs.kohort.dev`` there.

    No API server serves that resource; RBAC rules name it to give the right to read Kohort's answers.
    """

    def __init__(self, reviewer: ReviewsAccess, clock: Clock, seconds: float) -> None:
        """Store the arguments. ``seconds``: how long an answer is valid."""
        self._reviewer = reviewer
        self._seconds = seconds
        self._kept: TimedCache[tuple[TokenOwner, str], bool] = TimedCache(clock)
        self._turns = ConcurrencyLimit(waiting=MOST_KEPT)

    async def may(self, user: TokenOwner, namespace: str) -> bool:
        """Tell whether the user may read the namespace; empty: all namespaces.

        Raise BusyError if the API server was not asked, and UnansweredError if it did not answer.
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
    """Return the API server's message about a failed review, for the text of the error.

    The message may name rights that Kohort's own ServiceAccount lacks; these are no secret.
    """
    return str(getattr(outcome, "message", "") or getattr(outcome, "why", "") or getattr(outcome, "reason", ""))[:200]
