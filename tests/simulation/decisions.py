"""The canonical digest: decisions described by time, UID, node and size alone.

It has no names of classes or fields, no reasons and no plans. The digest of a seed therefore stays the same under
renaming and rewriting, as long as the same decisions are made at the same times.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from policy.cluster.actions import Admit, Bind, Effect, Migrate, RefuseBind, Reject, Released, Resize
from policy.cluster.model import Slot

EVERY: Final = 16  # how many decisions lie between two marks; a difference is located within so many
DIGITS: Final = 4  # hexadecimal digits of a mark; only the last mark is the whole digest
LENGTH: Final = 16


class Decisions:
    """The decisions of one run in order, as lines of time, UID, nodes and size."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def step(self, now: float, effects: Iterable[Effect]) -> None:
        """Add the decisions of one step."""
        self.lines += (f"{now:.6f} {decision}" for effect in effects for decision in _decided(effect))


def marks(lines: Iterable[str]) -> tuple[str, ...]:
    """Return marks of the first 16 lines, the first 32 and so on; the last one is the digest of all lines."""
    digest, found, count = hashlib.sha256(), list[str](), 0
    for count, line in enumerate(lines, 1):
        digest.update(f"{line}\n".encode())
        if count % EVERY == 0:
            found.append(digest.hexdigest()[:DIGITS])
    return (*found, f"{count}:{digest.hexdigest()[:LENGTH]}")


def first_difference(now: tuple[str, ...], before: tuple[str, ...]) -> range | None:
    """Return the range of lines that has the first difference, or None if there is none."""
    if now == before:
        return None
    same = next((at for at, (one, other) in enumerate(zip(now, before, strict=False)) if one != other), 0)
    return range(same * EVERY, (same + 1) * EVERY)


def _decided(effect: Effect) -> Iterator[str]:
    """Yield the decisions of an effect as lines; observations of the API and a policy's own memory are no decisions."""
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
