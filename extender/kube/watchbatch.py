"""What a reflector delivers of a list or a watch, and when it lists and reads again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from extender.kube.api import Json, Resource


@dataclass(frozen=True, slots=True)
class WatchBatch:
    """Events ``{"type": ADDED | MODIFIED | DELETED, "object"}`` of one resource, in order.

    ``resource_version``: the version of the resource after these events. ``kind``: a ``page`` is a part of a list, and
    more parts follow. The ``end`` completes the list: it has a DELETED event (metadata only: namespace, name, uid) for
    each object that is no longer listed. If a new object has taken the name of a deleted object, the DELETED event is
    in a page instead, just before the event of the new object. ``changes`` has the events of a watch. The pages of a
    list that fails half-way are valid all the same. ``listed``: at the end of a list, the uid of every object in it.
    """

    resource: Resource
    kind: Literal["page", "end", "changes"]
    events: list[Json]
    resource_version: str
    listed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ReflectorTimes:
    """The times that a reflector waits, all in seconds."""

    watch_seconds: tuple[float, float] = (30.0, 45.0)
    # stall_seconds must be longer than the longest watch, or every quiet watch would look stalled.
    stall_seconds: float = 50.0
    # After a watch that lasted settled_seconds, back-off starts again from its first pause.
    settled_seconds: float = 1.0
    backoff_seconds: float = 0.5
    backoff_cap_seconds: float = 30.0
    # missing_seconds is the pause between attempts where a CRD is missing, or the right to read it.
    missing_seconds: float = 10.0
    # Refusals with 403 count as a lacking right only after this time, because a new right takes effect late.
    forbidden_seconds: float = 10.0
