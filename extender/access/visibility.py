"""Says who a caller is and which namespaces the caller may read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final
from zlib import crc32

from starlette.requests import Request

KEY: Final = "kohort.caller"
"""The key under which the guard stores the caller in the request's scope."""


@dataclass(frozen=True, slots=True)
class Visibility:
    """The namespaces that a caller may read: all of them, or a given set."""

    every: bool = False
    namespaces: frozenset[str] = frozenset()

    def sees(self, namespace: str) -> bool:
        """Tell whether the caller may read the namespace.

        An empty name stands for what belongs to no namespace; only callers who may read all namespaces see it.
        """
        return self.every or namespace in self.namespaces

    @property
    def sees_nothing(self) -> bool:
        """Tell whether the caller may read no namespace."""
        return not (self.every or self.namespaces)

    @property
    def tag(self) -> str:
        """Return a text that identifies the set of namespaces in an ETag; empty for a caller who may read all."""
        return "" if self.every else f".{crc32(' '.join(sorted(self.namespaces)).encode()):x}"


EVERYTHING: Final = Visibility(every=True)


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request.

    may: asks whether the caller may read a namespace that has no jobs yet. seconds: how long the rights are valid; None
    for a caller on loopback, who is not authenticated and may read everything.
    """

    visibility: Visibility
    may: Callable[[str], Awaitable[bool]] | None = None
    seconds: float | None = None
    name: str = ""

    async def with_namespace(self, namespace: str) -> Caller:
        """Return the caller with this namespace added to its visibility if the API server allows it; else unchanged."""
        if self.visibility.sees(namespace) or self.may is None or not await self.may(namespace):
            return self
        return replace(self, visibility=Visibility(namespaces=self.visibility.namespaces | {namespace}))


ANYBODY_HERE: Final = Caller(EVERYTHING)


async def caller_of(request: Request) -> Caller:
    """Return the caller whom the guard has admitted.

    On a listener without a guard, return a caller who may read everything.
    """
    found: Caller = request.scope.get(KEY, ANYBODY_HERE)
    return found
