"""Follow the pods of a namespace, and report overcommitted nodes and preempted pods."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.observer import ClusterObserver, Sighting

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Course:
    """How a preemption went, in seconds since the preemptor's creation, as the watch of the API server showed it.

    marked: when the first victim was marked. emptied: when the last victim was gone. seconds: when the preemptor was
    bound. victims: how many pods were preempted.
    """

    marked: float
    emptied: float
    seconds: float
    victims: int

    def __str__(self) -> str:
        return f"first victim marked after {self.marked:.1f} s, last one gone after {self.emptied:.1f} s"


@dataclass(slots=True)
class RoomWatch(ClusterObserver):
    """An observer that also records preempted pods in ``victims``, a mapping from UID to name.

    ``first`` is the number of sightings before the first pod was marked as preempted.
    """

    victims: dict[str, str] = field(default_factory=dict)
    first: int = 0

    def _note(self, pod: Json, *, gone: bool) -> None:
        ClusterObserver._note(self, pod, gone=gone)
        conditions = pod["status"].get("conditions", ())
        marks = {(one["type"], one["status"], one.get("reason", "")) for one in conditions}
        if ("DisruptionTarget", "True", "PreemptionByScheduler") in marks:
            self.first = self.first or len(self.sightings)
            self.victims[pod["metadata"]["uid"]] = pod["metadata"]["name"]

    def preempted_twice(self) -> list[str]:
        """Return the names of members that were preempted, recreated, and preempted again."""
        return [name for name, times in Counter(self.victims.values()).items() if times > 1]

    def course(self, name: str) -> Course:
        """Return how long each part of the preemption by the pod of that name took; it must be bound."""
        seen = list(self.sightings)
        began = next(one.at for one in seen if one.job == name)
        bound = next(one.at for one in seen if one.job == name and one.node)
        gone = [one.at for one in seen if one.gone and one.uid in self.victims and one.at <= bound]
        return Course(seen[self.first - 1].at - began, max(gone) - began, bound - began, len(self.victims))

    def bound_before(self, name: str) -> list[str]:
        """Return the pods bound to the node of the preempting pod ``name`` between the preemption and its binding."""
        seen = list(self.sightings)
        there = {one.uid for one in seen[: self.first] if one.node}
        at = next(at for at, one in enumerate(seen) if one.job == name and one.node)
        return [str(one) for one in seen[self.first : at] if one.node == seen[at].node and one.uid not in there]

    def over(self, cores: float) -> list[str]:
        """Return a message for each moment at which pods on a node requested more than its ``cores``."""
        latest: dict[str, Sighting] = {}
        found = []
        for sighting in list(self.sightings):
            latest[sighting.uid] = sighting
            held: defaultdict[str, float] = defaultdict(float)
            for one in latest.values():
                if one.node and one.holds(one.node):
                    held[one.node] += one.cores
            found += [f"{node}: {taken:g} of {cores:g} cores" for node, taken in held.items() if taken > cores + 1e-6]
        return found
