"""Compute the digest of a run's decisions, each described by time, UID, nodes and size alone.

The description has no names of classes or fields, no reasons and no plans. The digest of a seed therefore stays the
same when code is renamed or rewritten, as long as the same decisions are made at the same times.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from policy.cluster.actions import Admit, Bind, Effect, Migrate, RefuseBind, Reject, Released, Resize
from policy.cluster.job import Slot

# There is a mark (digest) after every 16 decisions, so that a difference can be located to 16 decisions.
EVERY: Final = 16
DIGITS: Final = 4  # A mark has this many hexadecimal digits; only the last mark is the whole digest.
LENGTH: Final = 16


class Decisions:
    """The decisions of one run in order, as lines of time, UID, nodes and size."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def step(self, now: float, effects: Iterable[Effect]) -> None:
        """Add the decisions of one step."""
        self.lines += (f"{now:.6f} {decision}" for effect in effects for decision in _decided(effect))


def marks(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the digests (marks) of the first 16 lines, of the first 32 and so on; the last one is the digest of all
    lines.
    """
    digest, found, count = hashlib.sha256(), list[str](), 0
    for count, line in enumerate(lines, 1):
        digest.update(f"{line}\n".encode())
        if count % EVERY == 0:
            found.append(digest.hexdigest()[:DIGITS])
    return (*found, f"{count}:{digest.hexdigest()[:LENGTH]}")


def first_difference(now: tuple[str, ...], before: tuple[str, ...]) -> range | None:
    """Return the range of lines that has the first difference between the marks of two runs, or None if the runs are
    equal.
    """
    if now == before:
        return None
    same = next((at for at, (one, other) in enumerate(zip(now, before, strict=False)) if one != other), 0)
    return range(same * EVERY, (same + 1) * EVERY)


def _decided(effect: Effect) -> Iterator[str]:
    """Yield a line for each decision in the effect. What was observed of the API, and what a policy remembers, is no
    decision.
    """
    match effect:
        case Admit() | Resize():
            yield f"{effect.job_uid} {_places(effect.nodes)} {effect.workers}/{'' if effect.ps is None else effect.ps}"
        case Migrate():
            yield f"{effect.job_uid} {_places(effect.nodes)} {len(effect.nodes)}"
        case Bind():
            yield f"{effect.uid} {effect.node} 1"
        case RefuseBind():
            yield f"{effect.uid} - 0"
        case Reject() | Released():
            yield f"{effect.job_uid} - 0"
        case _:
            pass


def _places(nodes: Mapping[Slot, str]) -> str:
    """Return the node of each member, in the order of the members."""
    return ",".join(nodes[slot] for slot in sorted(nodes)) or "-"
