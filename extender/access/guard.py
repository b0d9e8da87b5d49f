"""Authenticates callers by their tokens and tells the routes what each caller may see.

Only callers who may read all namespaces get an answer from a path that is not in `RULES`, so that a new route
discloses nothing before its author has decided how it is filtered. kube-scheduler's verbs are on another listener,
which has no guard.
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

from extender.access.reviews import GROUP, RESOURCE, VERB, BusyError, Rights, TokenOwner, Tokens, UnansweredError
from extender.access.visibility import EVERYTHING, KEY, Caller, Visibility
from extender.http.asgi import App, Receive, Scope, Send
from extender.http.headers import FORWARDED_HEADER
from extender.present.views.problem import ProblemView

PROBLEM: Final = "application/problem+json"
RETRY_SECONDS: Final = 5
FOLLOWS: Final = "this replica does not lead yet and knows no decisions; try again: another replica answers"
T = TypeVar("T")
Row = tuple["re.Pattern[str]", "Rule"]
RIGHT: Final = f"{VERB} {RESOURCE}.{GROUP}"


class Rule(Enum):
    """How a route keeps from the caller what the caller may not read. The value of each member says it in words."""

    OPEN = "the answer says nothing about the cluster, so no token is needed"
    FILTERED = "the answer has only what belongs to namespaces that the caller may read"
    NAMED = "filtered; the body names a namespace, and the route checks itself that the caller may read it"
    WHOLE = "the route is only for callers who may read all namespaces"


RULES: Final[Mapping[str, Rule]] = {
    "/v1/jobs": Rule.FILTERED,
    "/v1/jobs/{namespace}/{name}": Rule.FILTERED,
    "/v1/queue": Rule.FILTERED,
    "/v1/nodes": Rule.FILTERED,
    "/v1/plans": Rule.FILTERED,
    "/v1/desired": Rule.WHOLE,  # the answer has the controller's orders for the jobs of all namespaces
    "/v1/decisions": Rule.FILTERED,
    "/v1/explain/{namespace}/{name}": Rule.FILTERED,
    "/v1/what-if": Rule.NAMED,
    "/v1/comparison": Rule.WHOLE,  # the answer compares the jobs of all namespaces together
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
    """The request is refused. The text says why and what the caller can do.

    retry_seconds: after how many seconds the caller should try again; 0: trying again does not help.
    """

    def __init__(self, status: int, title: str, detail: str, retry_seconds: int = 0) -> None:
        super().__init__(detail)
        self.view = ProblemView(status=status, title=title, detail=detail)
        self.retry_seconds = retry_seconds

    def answer(self) -> Response:
        """Return the error as a problem (RFC 9457)."""
        headers = {"Cache-Control": "no-store"}
        if self.view.status == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="kohort"'
        if self.retry_seconds:
            headers["Retry-After"] = str(self.retry_seconds)
        return JSONResponse(self.view.model_dump(), self.view.status, headers, media_type=PROBLEM)


class Access:
    """Finds out who the caller of a request is, and which namespaces that caller may read.

    namespaces: returns the namespaces that have jobs now.
    """

    def __init__(
        self,
        tokens: Tokens,
        rights: Rights,
        namespaces: Callable[[], Iterable[str]],
        leads: Callable[[], bool],
        seconds: float,
        allowed: str,
    ) -> None:
        """Store the arguments; nothing is sent yet.

        leads: tells whether this replica leads. Only the leader has the state to answer from, and a Service may send a
        request to any replica. seconds: how long an answer of the API server is valid. allowed: which tokens are
        accepted, in words for people.
        """
        self.leads = leads
        self._tokens = tokens
        self._rights = rights
        self._namespaces = namespaces
        self._seconds = seconds
        self._allowed = allowed

    async def caller(self, authorization: str) -> Caller:
        """Return the caller who sent this Authorization header. Raise DeniedError if it is refused."""
        user = await _answered(self._user(authorization))
        visibility = await _answered(self._visibility(user))
        return Caller(
            visibility, lambda namespace: _answered(self._rights.may(user, namespace)), self._seconds, user.name
        )

    async def _user(self, authorization: str) -> TokenOwner:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise DeniedError(
                401, "Unauthorized", f"no token; send Authorization: Bearer TOKEN, {self._allowed} (through the API "
                f"server's proxy, which keeps that header, {FORWARDED_HEADER})"
            )  # fmt: skip
        user = await self._tokens.owner(token.strip())
        if user is None:
            raise DeniedError(
                401, "Unauthorized", f"the API server does not accept this token; allowed: {self._allowed}"
            )
        return user

    async def _visibility(self, user: TokenOwner) -> Visibility:
        if await self._rights.may(user, ""):
            return EVERYTHING
        there = sorted(set(self._namespaces()))
        allowed = await asyncio.gather(*(self._rights.may(user, namespace) for namespace in there))
        return Visibility(namespaces=frozenset(name for name, may in zip(there, allowed, strict=True) if may))


async def _answered(asked: Awaitable[T]) -> T:
    """Await a question to the API server and return the answer. Raise DeniedError if the API server did not answer or
    could not be asked.
    """
    try:
        return await asked
    except UnansweredError as error:
        why = f"{error}, and no request is admitted without its answer; try again"
        raise DeniedError(503, "Service Unavailable", why, RETRY_SECONDS) from None
    except BusyError:
        why = "too many tokens are being reviewed; try again"
        raise DeniedError(429, "Too Many Requests", why, RETRY_SECONDS) from None


def may_not(caller: Caller, where: str) -> DeniedError:
    """Return the error for a caller who lacks the right to read ``where``; it names the ClusterRole with that right."""
    return DeniedError(
        403, "Forbidden", f"{caller.name} may not {RIGHT} in {where}; ask for a RoleBinding there to the "
        "ClusterRole kohort-view or view",
    )  # fmt: skip


class Guard:
    """An ASGI app that passes a request on to ``app`` only if its caller may make it, and answers it otherwise."""

    def __init__(self, app: App, access: Access, rules: Mapping[str, Rule] = RULES) -> None:
        """Store the arguments. ``rules``: the rule of each path, which is written as in the app's routes."""
        self._app = app
        self._access = access
        self._rules: tuple[Row, ...] = tuple((compile_path(path)[0], rule) for path, rule in rules.items())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                await self._let_in(scope)
            except DeniedError as error:
                await error.answer()(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _let_in(self, scope: Scope) -> None:
        """Add the caller to the request's scope. Raise DeniedError if the request is refused."""
        path: str = scope["path"]
        rule, parameters = row_of(path, self._rules)
        if rule is Rule.OPEN:
            return
        headers = Headers(scope=scope)
        caller = await self._access.caller(headers.get("authorization") or headers.get(FORWARDED_HEADER, ""))
        if namespace := parameters.get("namespace"):
            caller = await caller.with_namespace(namespace)
            if not caller.visibility.sees(namespace):
                raise may_not(caller, f"namespace {namespace[:63]}")
        elif rule is Rule.WHOLE and not caller.visibility.every:
            raise may_not(caller, f"all namespaces, as {path[:200]} asks for")
        elif rule is Rule.FILTERED and caller.visibility.sees_nothing:
            raise may_not(caller, "any namespace that has jobs now")
        if not self._access.leads():
            raise DeniedError(503, "Service Unavailable", FOLLOWS, 1)
        scope[KEY] = caller


def row_of(path: str, rules: Sequence[Row]) -> tuple[Rule, Mapping[str, str]]:
    """Return the rule of the path's route, and the path's parameters.

    A path that has no rule gets `Rule.WHOLE`: its caller must have the right to read all namespaces.
    """
    for pattern, rule in rules:
        if found := pattern.match(path):
            return rule, found.groupdict()
    return Rule.WHOLE, {}
