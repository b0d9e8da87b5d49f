"""Which way a resize goes. The effect names the new number of workers only, so the old one is followed here."""

from __future__ import annotations

from typing import Literal

from policy.cluster.actions import Admit, Effect, Released, Resize

Direction = Literal["", "in", "out"]
Cause = Literal["rival", "pause", "room", "plan", "repair"]


class Workers:
    """How many workers each job was given, as far as the effects told."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._workers: dict[str, int] = {}

    def follow(self, effect: Effect) -> Direction:
        """Note the effect; ``in`` or ``out`` for a resize, empty for all else and where members only move."""
        match effect:
            case Admit():
                self._workers[effect.job_uid] = effect.workers
            case Released():
                self._workers.pop(effect.job_uid, None)
            case Resize():
                before = self._workers.get(effect.job_uid)
                self._workers[effect.job_uid] = effect.workers
                return _direction(effect, before)
            case _:
                pass
        return ""


def _direction(resize: Resize, before: int | None) -> Direction:
    """A gang from before our start is told by its nodes: only what is added is given any."""
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
