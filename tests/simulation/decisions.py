"""The canonical digest: what was decided, told by time, uid, node and size alone.

No name of a class or a field, no reason and no plan is in it: code may be renamed and rewritten, and the digest of a
seed stays as long as the same things are decided at the same times.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from policy.cluster.actions import Admit, Bind, Effect, Migrate, RefuseBind, Reject, Released, Resize
from policy.cluster.model import Slot

EVERY: Final = 16  # decisions between two marks, so that a difference is found to so many
DIGITS: Final = 4  # of a mark in the middle; the last one is the digest
LENGTH: Final = 16


class Decisions:
    """The decisions of one run, in their order, as lines of time, uid, nodes and size."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def step(self, now: float, effects: Iterable[Effect]) -> None:
        """Add what one step decided at this time."""
        self.lines += (f"{now:.6f} {decision}" for effect in effects for decision in _decided(effect))


def marks(lines: Iterable[str]) -> tuple[str, ...]:
    """Marks of the first 16 lines, the first 32 and so on, and the digest of all of them as the last."""
    digest, found, count = hashlib.sha256(), list[str](), 0
    for count, line in enumerate(lines, 1):
        digest.update(f"{line}\n".encode())
        if count % EVERY == 0:
            found.append(digest.hexdigest()[:DIGITS])
    return (*found, f"{count}:{digest.hexdigest()[:LENGTH]}")


def first_difference(now: tuple[str, ...], before: tuple[str, ...]) -> range | None:
    """The lines of now among which the first one lies that differs; None where all are the same."""
    if now == before:
        return None
    same = next((at for at, (one, other) in enumerate(zip(now, before, strict=False)) if one != other), 0)
    return range(same * EVERY, (same + 1) * EVERY)


def _decided(effect: Effect) -> Iterator[str]:
    """What of an effect is a decision; reports of what the API shows, and a policy's own memory, are none."""
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
    """The node of each member, in the order of the members."""
    return ",".join(nodes[slot] for slot in sorted(nodes)) or "-"
