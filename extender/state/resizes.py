"""Finds the direction and cause of a resize. The effect has only the new number of workers; the snapshot has the old
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from policy.cluster.actions import Admit, Effect, Resize
from policy.cluster.snapshot import Snapshot

Direction = Literal["", "in", "out"]
Cause = Literal["rival", "pause", "room", "plan", "repair"]


def ways(effects: Iterable[Effect], before: Snapshot | None) -> Iterator[Direction]:
    """Yield the direction of each effect of one step: ``in`` for a shrink, ``out`` for a growth.

    It is empty for other effects, and for a resize that only gives members other nodes. before: the snapshot with which
    the step began; None if it is not known.
    """
    given: dict[str, int] = {}
    for effect in effects:
        way: Direction = ""
        if isinstance(effect, Resize):
            had = before.gangs.get(effect.job_uid) if before is not None else None
            way = _direction(
                effect, given.get(effect.job_uid, had.workers if had is not None and had.admitted else None)
            )
        if isinstance(effect, Admit | Resize):
            given[effect.job_uid] = effect.workers
        yield way


def _direction(resize: Resize, before: int | None) -> Direction:
    """Return the direction of a resize of a gang that had ``before`` workers.

    If that number is not known (None), the direction follows from the nodes, because only a growth names nodes.
    """
    if before is None:
        return "out" if resize.nodes else "in"
    if before == resize.workers:
        return ""
    return "out" if resize.workers > before else "in"


def cause_of(resize: Resize, way: Direction) -> Cause:
    """Return the cause of a resize.

    ``rival``: for another job that waits. ``pause``: to pause the job. ``room``: to use idle room. ``plan``: the
    policy's own plan. ``repair``: to give members other nodes.
    """
    if resize.pauses:
        return "pause"
    if resize.on_behalf_of:
        return "rival"
    if way == "out":
        return "room"
    return "plan" if way == "in" else "repair"
