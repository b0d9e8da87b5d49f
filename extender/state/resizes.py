"""Which way a resize goes, and why. The effect names the new number of workers only: the old one is the snapshot's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from policy.cluster.actions import Admit, Effect, Resize
from policy.cluster.snapshot import Snapshot

Direction = Literal["", "in", "out"]
Cause = Literal["rival", "pause", "room", "plan", "repair"]


def ways(effects: Iterable[Effect], before: Snapshot | None) -> Iterator[Direction]:
    """Of each effect of one step: ``in`` or ``out`` for a resize, empty for all else and where members only move.

    before: the snapshot that the step began with.
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
    """A gang that was found in this very step is told by its nodes: only what is added is given any."""
    if before is None:
        return "out" if resize.nodes else "in"
    if before == resize.workers:
        return ""
    return "out" if resize.workers > before else "in"


def cause_of(resize: Resize, way: Direction) -> Cause:
    """Why: for a job that waits, to pause, into idle room, by the policy's own plan, or to give members other nodes."""
    if resize.pauses:
        return "pause"
    if resize.on_behalf_of:
        return "rival"
    if way == "out":
        return "room"
    return "plan" if way == "in" else "repair"
