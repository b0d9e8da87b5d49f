"""Check that room freed for a waiting job goes to that job.

The journal says for which job and nodes room was freed; an observer of the API server says which pods were bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from extender.state.codec import value_of
from extender.state.record import journals, read
from policy.cluster.actions import Admit, Effect, Released, Resize
from tests.e2e.observer import Sighting

Member = tuple[str, int]  # A member is named by role and index.


@dataclass(frozen=True, slots=True)
class Promise:
    """A plan that waits for room: job ``job`` gets ``nodes`` once the pods with the UIDs ``frees`` are gone.

    The plan was made at ``at``, in seconds since the epoch.
    """

    at: float
    job: str
    nodes: Mapping[Member, str]
    frees: frozenset[str]


def effects_in(folder: Path) -> list[tuple[float, Effect]]:
    """Return every decision of a journal with its time, in order."""
    steps = (step for file in journals(folder) for step in read(file)[1])
    return [(step.at, value_of(effect)) for step in steps for effect in msgspec.json.decode(step.effects)]


def promises(effects: Iterable[tuple[float, Effect]], name_of: Callable[[str], str]) -> list[Promise]:
    """Return every plan that waited for pods to go and was not given up; ``name_of`` maps a job's UID to its name."""
    made: list[Promise | None] = []
    open_for: dict[str, int] = {}
    for at, effect in effects:
        match effect:
            case Admit() | Resize() if effect.waits_for:
                nodes = {(slot.role, slot.index): node for slot, node in effect.nodes.items()}
                open_for[effect.job_uid] = len(made)
                made.append(Promise(at, name_of(effect.job_uid), nodes, frozenset(effect.waits_for)))
            case Released(job_uid) if job_uid in open_for:
                made[open_for.pop(job_uid)] = None
    return [promise for promise in made if promise is not None]


def broken(promise: Promise, sightings: Sequence[Sighting], cores: float, epoch: float) -> Iterator[str]:
    """Yield a message for each member bound elsewhere than promised, and for each other pod bound into its freed room.

    Each node has ``cores`` cores. ``epoch`` is the journal's clock less the sightings' clock, in seconds. Until the
    job is bound, other pods may use only free room of the node that was not freed for the job.
    """
    seen: dict[str, Sighting] = {}
    sizes = {s.member: s.cores for s in sightings if s.job == promise.job}
    waiting = dict(promise.nodes)
    freed = False
    for sighting in sightings:
        new = sighting.bound and (sighting.uid not in seen or not seen[sighting.uid].bound)
        seen[sighting.uid] = sighting
        freed = freed or (sighting.uid in promise.frees and not sighting.holds(sighting.node))
        if not new or sighting.at + epoch < promise.at:
            continue
        if sighting.job == promise.job:
            if waiting.pop(sighting.member, sighting.node) != sighting.node:
                yield f"{promise.job} {sighting.member} is on {sighting.node}, and was promised {promise.nodes}"
            continue
        owed = sum(sizes.get(member, 0.0) for member, node in waiting.items() if freed and node == sighting.node)
        taken = sum(s.cores for s in seen.values() if s.holds(sighting.node) and s.uid not in promise.frees)
        if owed and owed + taken > cores:
            yield f"{sighting.job} {sighting.member} took room on {sighting.node} that was freed for {promise.job}"
    if waiting:
        yield f"{promise.job}: {waiting} never bound"
