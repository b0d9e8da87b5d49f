"""Limits the length of a request's body, by the bytes that arrive and not only by what the head declares.

Without this limit uvicorn would read 256 MiB.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from extender.http.asgi import App, Message, Receive, Scope, Send, answer

# A body of more bytes than this counts as large. The body of a filter call with 5,000 node names has half as many.
LARGE_BODY: Final = 256 * 1024
LARGE_AT_ONCE: Final = 8

Refuse = Callable[[str], tuple[int, bytes]]
"""A function that returns the status and JSON body of the answer to a request whose body is too long, by its path."""


class BodyLimit:
    """ASGI middleware that passes the whole body to the app at once, or answers by itself when the body is too long.

    The body is collected here and not in the app, where frameworks turn an exception from `receive` into a 500.
    ``refuse`` makes the answer to a body that is too long by the request's path, because kube-scheduler reads a reason
    only from a 200 with ``Error``; without ``refuse`` the answer is 413. A client that is still sending may see a reset
    before it reads the answer. At most `LARGE_AT_ONCE` bodies above `LARGE_BODY` are in memory: reading a further large
    body stops until one of them is answered, and its request is refused if its deadline passes meanwhile.
    """

    def __init__(self, app: App, limit: int, refuse: Refuse | None = None) -> None:
        """Allow bodies of up to ``limit`` bytes."""
        self._app = app
        self._limit = limit
        self._refuse = refuse or self._too_large
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, as ASGI calls a middleware."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if _declared(scope) > self._limit:
            await answer(send, *self._refuse(scope["path"]))
            return
        async with contextlib.AsyncExitStack() as held:
            body = await self._gather(receive, held)
            if body is None:
                await answer(send, *self._refuse(scope["path"]))
            elif isinstance(body, bytes):
                await self._app(scope, _replay(body, receive), send)

    async def _gather(self, receive: Receive, held: contextlib.AsyncExitStack) -> bytes | bool | None:
        """Return the body; None if it is too long, False if the client disconnected.

        The rest of a large body is read once fewer than `LARGE_AT_ONCE` large bodies are in memory. held: an exit stack
        that the caller closes when the request has been answered; then this body no longer counts as in memory.
        """
        parts: list[bytes] = []
        length, is_large = 0, False
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return False
            parts.append(message.get("body", b""))
            length += len(parts[-1])
            if length > self._limit:
                return None
            if length > LARGE_BODY and not is_large:
                is_large = True
                await held.enter_async_context(self._large)
            if not message.get("more_body", False):
                return b"".join(parts)

    def _too_large(self, _path: str) -> tuple[int, bytes]:
        return 413, b'{"error":"the body is longer than %d bytes"}' % self._limit


def _declared(scope: Scope) -> int:
    """Return the value of Content-Length, or 0 where it is absent. It is always a number, because the HTTP parser
    refuses others.
    """
    return next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body once and then waits for the client to disconnect."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed
