"""What all routes of REST share: errors as problems (RFC 9457), 304 for an unchanged answer, and lists in pages."""

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
from extender.access.visibility import caller_of
from extender.present.views.problem import ProblemView
from extender.routes.wording import BODY, Fault, body_fault, fault, not_allowed, shown_value

MOST_AT_ONCE: Final = 5_000
T = TypeVar("T")


class ProblemError(Exception):
    """A request that cannot be served; ``view`` is the answer that says why."""

    def __init__(self, status: int, detail: str, field: str = "", value: object = "", allowed: str = "") -> None:
        super().__init__(detail)
        title = HTTPStatus(status).phrase
        shown = shown_value(value)
        self.view = ProblemView(status=status, title=title, detail=detail, field=field, value=shown, allowed=allowed)


def wrong(field: str, value: object, allowed: str) -> ProblemError:
    """Return the error for a field whose value is not allowed; ``allowed`` says in words which values are allowed."""
    return _problem_of(not_allowed(field, value, allowed))


def _problem_of(found: Fault) -> ProblemError:
    return ProblemError(422, found.detail, found.field, found.value, found.allowed)


def response_of(error: ProblemError, headers: Mapping[str, str] | None = None) -> Response:
    """Return the error as an HTTP response."""
    return JSONResponse(error.view.model_dump(), error.view.status, headers, media_type=PROBLEM)


def with_problems(app: Starlette) -> None:
    """Make the app answer with a problem if no route accepts the path or the method of a request."""
    app.add_exception_handler(HTTPException, _unrouted)


async def _unrouted(request: Request, error: Exception) -> Response:
    """Answer a request with an unknown path (404), or with a method that no route of its path takes (405).

    With 405, the header Allow names the methods that the path takes.
    """
    assert isinstance(error, HTTPException)
    path, headers = request.url.path[:200], dict(error.headers or {})
    if error.status_code == 404:
        lists = "a path that GET /openapi.json lists (behind a proxy: both below the proxy's path)"
        return response_of(ProblemError(404, f"path: nothing is at {path!r}; allowed: {lists}", "path", path, lists))
    if error.status_code == 405:
        methods = ", ".join(sorted(headers.get("Allow", "").split(", ")))
        detail = f"method: {request.method} is not allowed at {path!r}; allowed: {methods}"
        return response_of(ProblemError(405, detail, "method", request.method, methods), {**headers, "Allow": methods})
    return response_of(ProblemError(error.status_code, str(error.detail)), headers)


def _first_problem(error: RequestValidationError, model: type[BaseModel] | None) -> ProblemError:
    """Return the first error in the parameters or the body as a problem.

    model: the model of the parameters or the body. Pydantic's location of an error begins with the part of the request
    that is wrong, such as ``query`` or ``body``; the problem names only the field.
    """
    details: dict[str, Any] = error.errors()[0]
    inside, *place = details["loc"]
    if inside == BODY and (not place or details["type"] == "json_invalid"):
        return _problem_of(body_fault(error.body if details["type"] == "json_invalid" else details["input"]))
    return _problem_of(fault({**details, "loc": place}, model))


def routed(revision: Callable[[], str]) -> type[APIRoute]:
    """Return a class of routes that answer errors as problems, and with 304 if the client has the current revision.

    revision: returns a text that changes whenever an answer may change. The routes named in ``LIVE`` never answer 304,
    because they wait for changes themselves.
    """

    class Routed(APIRoute):
        """A route that answers errors as problems, and with 304 if the client has the current revision."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            """Return FastAPI's handler, wrapped so that it turns errors into problems and answers 304 if the client has
            the current revision.
            """
            handle, model = super().get_route_handler(), _request_model(self.dependant)
            kept = any(has_etag(method, self.name) for method in self.methods or ())

            async def handle_errors(request: Request) -> Response:
                try:
                    return await _with_etag(request, handle, revision) if kept else await handle(request)
                except RequestValidationError as error:
                    return response_of(_first_problem(error, model))
                except HTTPException as error:
                    if error.status_code != 400:
                        raise
                    # FastAPI raises status 400 for a body that is not JSON
                    return response_of(_problem_of(body_fault(await request.body())))
                except ProblemError as error:
                    return response_of(error)
                except DeniedError as error:
                    return error.answer()

            return handle_errors

    return Routed


def _request_model(dependant: Dependant) -> type[BaseModel] | None:
    """Return the model of a route's parameters or body, or None; no route has more than one."""
    fields = (one.field_info.annotation for one in (*dependant.query_params, *dependant.body_params))
    return next((kind for kind in fields if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


LIVE: Final = ("desired", "stream")


def has_etag(method: str, name: str) -> bool:
    """Tell whether answers of the route ``name`` get an ETag, because they stay valid until the next revision."""
    return method == "GET" and name not in LIVE


async def _with_etag(
    request: Request, handle: Callable[[Request], Coroutine[Any, Any, Response]], revision: Callable[[], str]
) -> Response:
    """Answer 304 if the client has the current revision; otherwise let ``handle`` answer, and add the ETag.

    The ETag is weak, because parts of the answer change while the ETag stays the same, such as how long a job has
    waited.
    """
    tag = f'W/"{revision()}{(await caller_of(request)).visibility.tag}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Authorization"}
    asked = {one.strip() for one in request.headers.get("if-none-match", "").split(",")}
    if tag in asked:
        return Response(status_code=304, headers=headers)
    answer = await handle(request)
    if answer.status_code == 200:
        answer.headers.update(headers)
    return answer


# -- The code below divides lists into pages. --------------------------------------------------------


class Paged(BaseModel):
    """Parameters of a list. ``limit``: the most entries in a page. ``continue``: its value in the page before."""

    model_config = ConfigDict(extra="forbid")

    limit: Annotated[
        int | None,
        Field(None, ge=1, le=MOST_AT_ONCE, description="The largest number of entries in the answer; default: all."),
    ]
    after: Annotated[
        str, Field("", alias="continue", max_length=2_000, description="The value of `continue` in the last answer.")
    ]


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of a list.

    begin, end: the page is ``entries[begin:end]``. continues: the token for the next page; empty for the last page.
    remaining: the number of entries after the page.
    """

    begin: int
    end: int
    continues: str
    remaining: int

    def of(self, entries: Sequence[T]) -> tuple[T, ...]:
        """Return the entries that are on this page."""
        return tuple(entries[self.begin : self.end])

    @property
    def fields(self) -> dict[str, Any]:
        """Return the fields of ListView that describe the page."""
        return {"continue": self.continues, "remaining": self.remaining}


def list_page(names: Sequence[str], parameters: Paged) -> ListPage:
    """Return the requested page of the entries with these names.

    The page begins after the last entry of the page before, wherever that entry is now. If that entry no longer exists,
    the page begins at the place that the entry had. Raise ProblemError if ``continue`` is not a token of this service.
    """
    begin = _begin(names, parameters.after)
    end = len(names) if parameters.limit is None else min(len(names), begin + parameters.limit)
    more = end < len(names) and end > begin
    return ListPage(begin, end, _token(end, names[end - 1]) if more else "", len(names) - end)


def _begin(names: Sequence[str], token: str) -> int:
    if not token:
        return 0
    try:
        place, name = json.loads(base64.urlsafe_b64decode(token.encode()))
        if not isinstance(place, int) or not isinstance(name, str) or place < 0:
            raise ValueError
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise wrong("continue", token, "the value of continue in the last answer") from None
    return names.index(name) + 1 if name in names else min(place, len(names))


def _token(place: int, name: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([place, name]).encode()).decode()
