"""Lets in only callers whose token and rights the API server knows, and notes for the routes what they may see.

Whatever has no row in `RULES` is for those who may read everything, so that a new route shows nothing to others before
somebody has said how it is filtered. kube-scheduler's verbs are on another listener and never come here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, TypeVar

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.routing import compile_path

from extender.access.reviews import GROUP, RESOURCE, VERB, BusyError, Rights, Tokens, UnansweredError, User
from extender.access.sight import EVERYTHING, KEY, Caller, Sight
from extender.http.asgi import App, Receive, Scope, Send
from extender.http.headers import FORWARDED_HEADER
from extender.present.views.problem import ProblemView

PROBLEM: Final = "application/problem+json"
RETRY_SECONDS: Final = 5
FOLLOWS: Final = "this replica does not lead, or not yet, and knows of no decisions; try again: another one answers"
T = TypeVar("T")
Row = tuple["re.Pattern[str]", "Rule"]
RIGHT: Final = f"{VERB} {RESOURCE}.{GROUP}"


class Rule(Enum):
    """How a route is kept from telling what its caller may not see."""

    OPEN = "nothing of the cluster is in it: no token is asked for"
    FILTERED = "its answer holds what is in namespaces that the caller may read"
    NAMED = "as filtered; its body names a namespace, in which it looks itself whether the caller may read"
    WHOLE = "only for those who may read all namespaces"


RULES: Final[Mapping[str, Rule]] = {
    "/v1/jobs": Rule.FILTERED,
    "/v1/jobs/{namespace}/{name}": Rule.FILTERED,
    "/v1/queue": Rule.FILTERED,
    "/v1/nodes": Rule.FILTERED,
    "/v1/plans": Rule.FILTERED,
    "/v1/desired": Rule.WHOLE,  # what the controller is to write
    "/v1/decisions": Rule.FILTERED,
    "/v1/explain/{namespace}/{name}": Rule.FILTERED,
    "/v1/what-if": Rule.NAMED,
    "/v1/comparison": Rule.WHOLE,  # jobs of all namespaces are compared together
    "/v1/stream": Rule.FILTERED,
    "/": Rule.FILTERED,
    "/parts": Rule.FILTERED,
    "/jobs/{namespace}/{name}": Rule.FILTERED,
    "/jobs/{namespace}/{name}/parts": Rule.FILTERED,
    "/comparison": Rule.FILTERED,
    "/comparison/{policy}": Rule.WHOLE,
    "/comparison/{policy}/parts": Rule.WHOLE,
    "/assets/{stamp}/{name}": Rule.OPEN,
    "/openapi.json": Rule.OPEN,
}


class DeniedError(Exception):
    """Why a request is not let in: the status, what to do, and where it is worth to ask again, after how long."""

    def __init__(self, status: int, title: str, detail: str, retry_seconds: int = 0) -> None:
        super().__init__(detail)
        self.view = ProblemView(status=status, title=title, detail=detail)
        self.retry_seconds = retry_seconds

    def answer(self) -> Response:
        """As a problem (RFC 9457)."""
        headers = {"Cache-Control": "no-store"}
        if self.view.status == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="kohort"'
        if self.retry_seconds:
            headers["Retry-After"] = str(self.retry_seconds)
        return JSONResponse(self.view.model_dump(), self.view.status, headers, media_type=PROBLEM)


class Access:
    """Finds out who calls and what they may see. namespaces: those in which there is something to see now."""

    def __init__(
        self,
        tokens: Tokens,
        rights: Rights,
        namespaces: Callable[[], Iterable[str]],
        leads: Callable[[], bool],
        seconds: float,
        allowed: str,
    ) -> None:
        """Ask nothing yet. leads: whether this replica knows what is decided: behind a Service another one may.

        seconds: how long an answer is good. allowed: which tokens are taken, for people.
        """
        self.leads = leads
        self._tokens = tokens
        self._rights = rights
        self._namespaces = namespaces
        self._seconds = seconds
        self._allowed = allowed

    async def caller(self, authorization: str) -> Caller:
        """Whoever sends this header. Raises DeniedError."""
        user = await _answered(self._user(authorization))
        sight = await _answered(self._sight(user))
        return Caller(sight, lambda namespace: _answered(self._rights.may(user, namespace)), self._seconds, user.name)

    async def _user(self, authorization: str) -> User:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise DeniedError(
                401, "Unauthorized", f"no token; send Authorization: Bearer TOKEN, {self._allowed} (through the API "
                f"server's proxy, which keeps that header, {FORWARDED_HEADER})"
            )  # fmt: skip
        user = await self._tokens.owner(token.strip())
        if user is None:
            raise DeniedError(401, "Unauthorized", f"the API server does not take this token; allowed: {self._allowed}")
        return user

    async def _sight(self, user: User) -> Sight:
        if await self._rights.may(user, ""):
            return EVERYTHING
        there = sorted(set(self._namespaces()))
        allowed = await asyncio.gather(*(self._rights.may(user, namespace) for namespace in there))
        return Sight(namespaces=frozenset(name for name, may in zip(there, allowed, strict=True) if may))


async def _answered(asked: Awaitable[T]) -> T:
    """What the API server said; DeniedError where it said nothing."""
    try:
        return await asked
    except UnansweredError as error:
        why = f"{error}, and nobody is let in without; try again"
        raise DeniedError(503, "Service Unavailable", why, RETRY_SECONDS) from None
    except BusyError:
        why = "too many tokens are being reviewed; try again"
        raise DeniedError(429, "Too Many Requests", why, RETRY_SECONDS) from None


def may_not(caller: Caller, where: str) -> DeniedError:
    """The caller lacks the right in ``where``; says who must give which."""
    return DeniedError(
        403, "Forbidden", f"{caller.name} may not {RIGHT} in {where}; allowed: whom a RoleBinding there gives the "
        "ClusterRole kohort-view, or view",
    )  # fmt: skip


class Guard:
    """ASGI: the app for those who may ask it."""

    def __init__(self, app: App, access: Access, rules: Mapping[str, Rule] = RULES) -> None:
        """Prepare only. rules: by path, as the app's routes are written."""
        self._app = app
        self._access = access
        self._rules: tuple[Row, ...] = tuple((compile_path(path)[0], rule) for path, rule in rules.items())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            try:
                await self._let_in(scope)
            except DeniedError as error:
                await error.answer()(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _let_in(self, scope: Scope) -> None:
        """Note who calls, or raise DeniedError."""
        path: str = scope["path"]
        rule, parameters = row_of(path, self._rules)
        if rule is Rule.OPEN:
            return
        headers = Headers(scope=scope)
        caller = await self._access.caller(headers.get("authorization") or headers.get(FORWARDED_HEADER, ""))
        if namespace := parameters.get("namespace"):
            caller = await caller.into(namespace)
            if not caller.sight.sees(namespace):
                raise may_not(caller, f"namespace {namespace[:63]}")
        elif rule is Rule.WHOLE and not caller.sight.every:
            raise may_not(caller, f"all namespaces, as {path[:200]} asks for")
        elif rule is Rule.FILTERED and caller.sight.blind:
            raise may_not(caller, "any namespace that has jobs now")
        if not self._access.leads():
            raise DeniedError(503, "Service Unavailable", FOLLOWS, 1)
        scope[KEY] = caller


def row_of(path: str, rules: Sequence[Row]) -> tuple[Rule, Mapping[str, str]]:
    """How the route of that path is filtered, and the path's parameters; what has no row is for the few."""
    for pattern, rule in rules:
        if found := pattern.match(path):
            return rule, found.groupdict()
    return Rule.WHOLE, {}
