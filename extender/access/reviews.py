"""Asks the API server whose a token is (TokenReview) and what its owner may do (SubjectAccessReview).

What it said is kept for a short time and in bounded memory; what it could not say is not kept, and nobody is let in for
want of an answer. Few questions are on their way at once, so that no flood of tokens reaches the API server. A token
that was somebody's before has places of its own, and is not forgotten for those that are nobody's.
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
WAITING: Final = 64  # questions that may wait for their turn
GROUP: Final = "kohort.dev"
RESOURCE: Final = "jobs"
VERB: Final = "list"
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ReviewsTokens(Protocol):
    """Whoever can ask the API server about a token."""

    async def review_token(self, token: str, audiences: Sequence[str]) -> Outcome:
        """TokenReview: Done with the object, whose status says whose the token is."""
        ...


class ReviewsAccess(Protocol):
    """Whoever can ask the API server about somebody's rights."""

    async def review_access(self, spec: Json) -> Outcome:
        """SubjectAccessReview: Done with the object, whose status says whether it is allowed."""
        ...


class Reviewer(ReviewsTokens, ReviewsAccess, Protocol):
    """Both."""


class UnansweredError(Exception):
    """The API server has not said it; why."""


class BusyError(Exception):
    """Too many questions wait already."""


@dataclass(frozen=True, slots=True)
class User:
    """Whom a token names, as the API server says."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def pod_uid(self) -> str:
        """The pod that the token was made for; empty where it was made for none."""
        return next((values[0] for key, values in self.extra if key == POD_UID and values), "")

    @property
    def spec(self) -> Json:
        """As a SubjectAccessReview names it."""
        extra = {key: list(values) for key, values in self.extra}
        return {"user": self.name, "uid": self.uid, "groups": list(self.groups), "extra": extra}


class Kept(Generic[K, V]):
    """What was answered, for so long as it is good; the least used goes first."""

    def __init__(self, clock: Clock, most: int = MOST_KEPT) -> None:
        """Know nothing yet."""
        self._clock = clock
        self._most = most
        self._known: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._known)

    def __contains__(self, key: K) -> bool:
        """Whether there is an answer, be it good no longer."""
        return key in self._known

    def get(self, key: K) -> V | None:
        """The answer, None where there is none that is good still."""
        value, until = self._known.get(key, (None, 0.0))
        if until <= self._clock.monotonic():
            return None
        self._known.move_to_end(key)
        return value

    def keep(self, key: K, value: V, seconds: float) -> V:
        """Remember it."""
        self._known[key] = value, self._clock.monotonic() + seconds
        self._known.move_to_end(key)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return value

    def forget(self, key: K) -> None:
        """Know nothing of it."""
        self._known.pop(key, None)


class Turns:
    """Few at once; whoever would have to wait behind too many is refused with BusyError."""

    def __init__(self, at_once: int = AT_ONCE, waiting: int = WAITING) -> None:
        """Nobody is here."""
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
    """Whose a token is. audiences: a token must be for one of them; none: for the API server itself."""

    def __init__(
        self, reviewer: ReviewsTokens, clock: Clock, audiences: Sequence[str], seconds: float, waiting: int = WAITING
    ) -> None:
        """Ask nothing yet. seconds: how long an answer is good."""
        self._reviewer = reviewer
        self._audiences = tuple(audiences)
        self._seconds = seconds
        self._owned: Kept[bytes, User] = Kept(clock)
        self._refused: Kept[bytes, User] = Kept(clock)
        self._first, self._again = Turns(waiting=waiting), Turns(waiting=waiting)

    async def owner(self, token: str) -> User | None:
        """Whose it is; None where it is nobody's, or for another audience. Raises UnansweredError and BusyError."""
        key = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        known = self._known(key)
        if known is None:
            async with self._again if key in self._owned else self._first:
                known = self._known(key) or await self._review(key, token)
        return known if known.name else None

    def _known(self, key: bytes) -> User | None:
        return self._owned.get(key) or self._refused.get(key)

    async def _review(self, key: bytes, token: str) -> User:
        outcome = await self._reviewer.review_token(token, self._audiences)
        if not isinstance(outcome, Done):
            raise UnansweredError(f"the API server cannot review the token now ({_why(outcome)})")
        user = self._user(outcome.body.get("status") or {})
        if user.name:
            return self._owned.keep(key, user, self._seconds)
        self._owned.forget(key)
        return self._refused.keep(key, user, min(self._seconds, REFUSED_SECONDS))

    def _user(self, status: Mapping[str, Any]) -> User:
        """Whom the TokenReview's status names; nobody where the token is not for us."""
        for_us = not self._audiences or set(self._audiences) & set(status.get("audiences") or ())
        if status.get("authenticated") is not True or not for_us:
            return User("")
        told = status.get("user") or {}
        extra = sorted((str(key), tuple(map(str, values or ()))) for key, values in (told.get("extra") or {}).items())
        groups = tuple(map(str, told.get("groups") or ()))
        return User(str(told.get("username") or ""), str(told.get("uid") or ""), groups, tuple(extra))


class Rights:
    """Who may ``list`` ``jobs.kohort.dev`` where: a resource that no API server serves, for RBAC to speak of."""

    def __init__(self, reviewer: ReviewsAccess, clock: Clock, seconds: float) -> None:
        """Ask nothing yet. seconds: how long an answer is good."""
        self._reviewer = reviewer
        self._seconds = seconds
        self._kept: Kept[tuple[User, str], bool] = Kept(clock)
        self._turns = Turns(waiting=MOST_KEPT)

    async def may(self, user: User, namespace: str) -> bool:
        """Whether the user may; an empty namespace: in all of them. Raises UnansweredError and BusyError."""
        known = self._kept.get((user, namespace))
        if known is None:
            async with self._turns:
                known = self._kept.get((user, namespace))
                if known is None:
                    known = await self._review(user, namespace)
        return known

    async def _review(self, user: User, namespace: str) -> bool:
        wanted = {"verb": VERB, "group": GROUP, "resource": RESOURCE, **({"namespace": namespace} if namespace else {})}
        outcome = await self._reviewer.review_access({**user.spec, "resourceAttributes": wanted})
        if not isinstance(outcome, Done):
            raise UnansweredError(f"the API server cannot say now what {user.name} may read ({_why(outcome)})")
        status = outcome.body.get("status") or {}
        allowed = status.get("allowed") is True and status.get("denied") is not True
        return self._kept.keep((user, namespace), allowed, self._seconds)


def _why(outcome: Outcome) -> str:
    """For the log of whoever asked; what the API server says of our own account's rights is no secret."""
    return str(getattr(outcome, "message", "") or getattr(outcome, "why", "") or getattr(outcome, "reason", ""))[:200]
