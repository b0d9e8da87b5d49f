"""Errors as problems (RFC 9457), answers that have not changed (304), and lists a page at a time."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field

from extender.access.guard import PROBLEM, DeniedError
from extender.access.sight import caller_of
from extender.present.views.problem import ProblemView

MOST_AT_ONCE: Final = 5_000
T = TypeVar("T")


class ProblemError(Exception):
    """A request that cannot be answered; the view says why."""

    def __init__(self, status: int, detail: str, field: str = "", value: object = "", allowed: str = "") -> None:
        super().__init__(detail)
        title = HTTPStatus(status).phrase
        shown = str(value)[:100]
        self.view = ProblemView(status=status, title=title, detail=detail, field=field, value=shown, allowed=allowed)


def wrong(field: str, value: object, allowed: str) -> ProblemError:
    """A value that is not allowed."""
    shown = str(value)[:100]
    return ProblemError(422, f"{field}: {shown!r} is not allowed; allowed: {allowed}", field, shown, allowed)


def told(error: ProblemError) -> Response:
    """The answer."""
    return JSONResponse(error.view.model_dump(), error.view.status, media_type=PROBLEM)


def _first(error: RequestValidationError) -> ProblemError:
    details: dict[str, Any] = error.errors()[0]
    field = ".".join(str(part) for part in details["loc"][1:])
    allowed = str(details["msg"]).removeprefix("Input should be ")
    if details["type"] == "extra_forbidden":
        allowed = "no parameter of that name; /openapi.json lists them"
    return wrong(field, details["input"], allowed)


def routed(revision: Callable[[], str]) -> type[APIRoute]:
    """A class of routes that answer with problems, and with 304 to whoever has this revision already.

    revision: changes whenever an answer may. Routes named in ``LIVE`` have their own way to wait for news.
    """

    class Routed(APIRoute):
        """One route."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            """Wrap the handler."""
            handle = super().get_route_handler()
            keeps = "GET" in (self.methods or ()) and self.name not in LIVE

            async def clear(request: Request) -> Response:
                try:
                    return await _kept(request, handle, revision) if keeps else await handle(request)
                except RequestValidationError as error:
                    return told(_first(error))
                except ProblemError as error:
                    return told(error)
                except DeniedError as error:
                    return error.answer()

            return clear

    return Routed


LIVE: Final = ("desired", "stream")


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
