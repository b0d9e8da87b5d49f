"""Errors as problems (RFC 9457), answers that have not changed (304), and lists a page at a time."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeVar

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from extender.access.guard import PROBLEM, DeniedError
from extender.access.sight import caller_of
from extender.present.views.problem import ProblemView
from extender.routes.wording import BODY, Fault, body_fault, fault, not_allowed, told_value

MOST_AT_ONCE: Final = 5_000
T = TypeVar("T")


class ProblemError(Exception):
    """A request that cannot be answered; the view says why."""

    def __init__(self, status: int, detail: str, field: str = "", value: object = "", allowed: str = "") -> None:
        super().__init__(detail)
        title = HTTPStatus(status).phrase
        shown = told_value(value)
        self.view = ProblemView(status=status, title=title, detail=detail, field=field, value=shown, allowed=allowed)


def wrong(field: str, value: object, allowed: str) -> ProblemError:
    """A value that is not allowed."""
    return _of(not_allowed(field, value, allowed))


def _of(found: Fault) -> ProblemError:
    return ProblemError(422, found.detail, found.field, found.value, found.allowed)


def told(error: ProblemError, headers: Mapping[str, str] | None = None) -> Response:
    """The answer."""
    return JSONResponse(error.view.model_dump(), error.view.status, headers, media_type=PROBLEM)


def with_problems(app: Starlette) -> None:
    """Have the app answer with problems also where no route takes a request."""
    app.add_exception_handler(HTTPException, _unrouted)


async def _unrouted(request: Request, error: Exception) -> Response:
    """No route has the path (404), or none this method (405: the header Allow says which)."""
    assert isinstance(error, HTTPException)
    path, headers = request.url.path[:200], dict(error.headers or {})
    if error.status_code == 404:
        lists = "a path that GET /openapi.json lists (behind a proxy: both below the proxy's path)"
        return told(ProblemError(404, f"path: nothing is at {path!r}; allowed: {lists}", "path", path, lists))
    if error.status_code == 405:
        methods = ", ".join(sorted(headers.get("Allow", "").split(", ")))
        detail = f"method: {request.method} is not allowed at {path!r}; allowed: {methods}"
        return told(ProblemError(405, detail, "method", request.method, methods), {**headers, "Allow": methods})
    return told(ProblemError(error.status_code, str(error.detail)), headers)


def _first(error: RequestValidationError, model: type[BaseModel] | None) -> ProblemError:
    """The first thing that is wrong with the parameters or the body; a place begins with which of them it is in."""
    details: dict[str, Any] = error.errors()[0]
    inside, *place = details["loc"]
    if inside == BODY and (not place or details["type"] == "json_invalid"):
        return _of(body_fault(error.body if details["type"] == "json_invalid" else details["input"]))
    return _of(fault({**details, "loc": place}, model))


def routed(revision: Callable[[], str]) -> type[APIRoute]:
    """A class of routes that answer with problems, and with 304 to whoever has this revision already.

    revision: changes whenever an answer may. Routes named in ``LIVE`` have their own way to wait for news.
    """

    class Routed(APIRoute):
        """One route."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            """Wrap the handler."""
            handle, model = super().get_route_handler(), _question(self.dependant)
            kept = any(keeps(method, self.name) for method in self.methods or ())

            async def clear(request: Request) -> Response:
                try:
                    return await _kept(request, handle, revision) if kept else await handle(request)
                except RequestValidationError as error:
                    return told(_first(error, model))
                except HTTPException as error:
                    if error.status_code != 400:
                        raise
                    return told(_of(body_fault(await request.body())))  # what no JSON reader takes
                except ProblemError as error:
                    return told(error)
                except DeniedError as error:
                    return error.answer()

            return clear

    return Routed


def _question(dependant: Dependant) -> type[BaseModel] | None:
    """The model of a route's parameters or body. No route has several."""
    fields = (one.field_info.annotation for one in (*dependant.query_params, *dependant.body_params))
    return next((kind for kind in fields if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


LIVE: Final = ("desired", "stream")


def keeps(method: str, name: str) -> bool:
    """Whether an answer of that route stays good until the next revision."""
    return method == "GET" and name not in LIVE


async def _kept(
    request: Request, handle: Callable[[Request], Coroutine[Any, Any, Response]], revision: Callable[[], str]
) -> Response:
    """Weak: what only passing time changes (how long a job has waited) is no other answer."""
    tag = f'W/"{revision()}{(await caller_of(request)).sight.tag}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Authorization"}
    asked = {one.strip() for one in request.headers.get("if-none-match", "").split(",")}
    if tag in asked:
        return Response(status_code=304, headers=headers)
    answer = await handle(request)
    if answer.status_code == 200:
        answer.headers.update(headers)
    return answer


# -- pages ---------------------------------------------------------------------------------------


class Paged(BaseModel):
    """``limit``: so many entries at most. ``continue``: what the answer before gave, for the next ones."""

    model_config = ConfigDict(extra="forbid")

    limit: Annotated[int | None, Field(None, ge=1, le=MOST_AT_ONCE, description="Entries at most; all without it.")]
    after: Annotated[str, Field("", alias="continue", max_length=2_000, description="What the answer before gave.")]


@dataclass(frozen=True, slots=True)
class Piece:
    """Where a page begins and ends. continues: for the next page, empty at the end. remaining: entries behind it."""

    begin: int
    end: int
    continues: str
    remaining: int

    def of(self, entries: Sequence[T]) -> tuple[T, ...]:
        """The page's entries."""
        return tuple(entries[self.begin : self.end])

    @property
    def fields(self) -> dict[str, Any]:
        """What a list's view tells of it."""
        return {"continue": self.continues, "remaining": self.remaining}


def piece(names: Sequence[str], parameters: Paged) -> Piece:
    """The page that is asked for of entries with these names. Raises ProblemError where ``continue`` is none of ours.

    It goes on behind the last entry that was told, wherever that is now; where it is gone, at the place that it had.
    """
    begin = _begin(names, parameters.after)
    end = len(names) if parameters.limit is None else min(len(names), begin + parameters.limit)
    more = end < len(names) and end > begin
    return Piece(begin, end, _token(end, names[end - 1]) if more else "", len(names) - end)


def _begin(names: Sequence[str], token: str) -> int:
    if not token:
        return 0
    try:
        place, name = json.loads(base64.urlsafe_b64decode(token.encode()))
        if not isinstance(place, int) or not isinstance(name, str) or place < 0:
            raise ValueError
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise wrong("continue", token, "what the answer before gave as continue") from None
    return names.index(name) + 1 if name in names else min(place, len(names))


def _token(place: int, name: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([place, name]).encode()).decode()
