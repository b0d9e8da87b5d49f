"""The journal in memory: what was decided, when, and because of which events; newest last."""

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

    sequence: number of the entry, without gaps. at: seconds since the epoch. generation: number of the step, the same
    for all that was decided together. cause: kinds of the events that the step applied. inputs: the figures that it was
    decided from. subject: the job and pod that it is about. way: direction of a resize.
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
        """Append one step's effects. inputs: by place among the effects. snapshots: after the step, and before it."""
        kinds = tuple(dict.fromkeys(cause))
        before = snapshots[1] if len(snapshots) > 1 else None
        for place, (effect, way) in enumerate(zip(effects, ways(effects, before), strict=True)):
            subject, figures = subject_of(effect, snapshots), inputs.get(place, {})
            self._entries.append(Entry(self._next, at, generation, kinds, effect, figures, subject, way))
            self._next += 1

    @property
    def latest(self) -> int:
        """Number of the newest entry; 0 where there is none."""
        return self._next - 1

    def since(self, sequence: int = 0) -> Iterator[Entry]:
        """Yield the entries after that number, oldest first."""
        return (entry for entry in tuple(self._entries) if entry.sequence > sequence)
