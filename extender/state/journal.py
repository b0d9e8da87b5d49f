"""Keeps the journal in memory: what was decided, when, and because of which events; the newest entry is last."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from extender.state.resizes import Direction, ways
from extender.state.subjects import NOBODY, Subject, subject_of
from policy.cluster.actions import Effect
from policy.cluster.snapshot import Snapshot

RING = 10_000
NO_INPUTS: Mapping[int, Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Entry:
    """One effect of one step.

    sequence: the number of the entry; numbers have no gaps. at: seconds since the epoch. generation: the number of the
    step, which is the same for all effects that were decided together. cause: the kinds of the events that the step
    applied. inputs: the figures from which the effect was decided, by name. subject: the job and pod that the effect is
    about. way: the direction of a resize, empty for other effects.
    """

    sequence: int
    at: float
    generation: int
    cause: tuple[str, ...]
    effect: Effect
    inputs: Mapping[str, str] = field(default_factory=dict)
    subject: Subject = NOBODY
    way: Direction = ""


class Journal:
    """The last ``size`` entries, numbered without gaps from 1 since the start of the process."""

    def __init__(self, size: int = RING) -> None:
        self._entries: deque[Entry] = deque(maxlen=size)
        self._next = 1

    def write(
        self,
        at: float,
        generation: int,
        cause: Sequence[str],
        effects: Sequence[Effect],
        inputs: Mapping[int, Mapping[str, str]] = NO_INPUTS,
        snapshots: Sequence[Snapshot] = (),
    ) -> None:
        """Append one step's effects.

        cause: the kinds of the step's events. inputs: the figures of each effect, by its index in ``effects``.
        snapshots: the snapshot after the step, then the one before it.
        """
        kinds = tuple(dict.fromkeys(cause))
        before = snapshots[1] if len(snapshots) > 1 else None
        for place, (effect, way) in enumerate(zip(effects, ways(effects, before), strict=True)):
            subject, figures = subject_of(effect, snapshots), inputs.get(place, {})
            self._entries.append(Entry(self._next, at, generation, kinds, effect, figures, subject, way))
            self._next += 1

    @property
    def latest(self) -> int:
        """Return the number of the newest entry; 0 where there is none."""
        return self._next - 1

    def since(self, sequence: int = 0) -> Iterator[Entry]:
        """Yield the entries after that number, oldest first."""
        return (entry for entry in tuple(self._entries) if entry.sequence > sequence)
