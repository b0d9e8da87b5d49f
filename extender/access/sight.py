"""What a caller may see, by namespace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final
from zlib import crc32

from starlette.requests import Request

KEY: Final = "kohort.caller"
"""Where the guard leaves the caller in the request's scope."""


@dataclass(frozen=True, slots=True)
class Sight:
    """Every namespace, or these."""

    every: bool = False
    namespaces: frozenset[str] = frozenset()

    def sees(self, namespace: str) -> bool:
        """Whether what is in the namespace may be told. What is in none is for those who see all."""
        return self.every or namespace in self.namespaces

    @property
    def blind(self) -> bool:
        """Whether there is nothing to see."""
        return not (self.every or self.namespaces)

    @property
    def tag(self) -> str:
        """Changes with the sight: an answer that was right for another one is not the same. Empty for everything."""
        return "" if self.every else f".{crc32(' '.join(sorted(self.namespaces)).encode()):x}"


EVERYTHING: Final = Sight(every=True)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. ``may``: asks about a namespace in which nothing was there to see. ``seconds``: how long this is good.

    Without ``seconds`` it is somebody on loopback, who was not asked for a name.
    """

    sight: Sight
    may: Callable[[str], Awaitable[bool]] | None = None
    seconds: float | None = None
    name: str = ""

    async def into(self, namespace: str) -> Caller:
        """The same, seeing also what is in the namespace where that is allowed."""
        if self.sight.sees(namespace) or self.may is None or not await self.may(namespace):
            return self
        return replace(self, sight=Sight(namespaces=self.sight.namespaces | {namespace}))


ANYBODY_HERE: Final = Caller(EVERYTHING)


async def caller_of(request: Request) -> Caller:
    """Who asks: whom the guard has let in; on a listener without a guard, anybody who reaches it."""
    found: Caller = request.scope.get(KEY, ANYBODY_HERE)
    return found
