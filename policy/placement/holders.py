"""Who holds the room of the nodes, and how much would be free if some of the holders released it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from policy.cluster.capacity import Capacity
from policy.cluster.charges import key_of
from policy.cluster.kept import until_emptied_room_changes
from policy.cluster.model import Node, Pod
from policy.cluster.resources import NOTHING, Resources, largest_share
from policy.cluster.snapshot import Snapshot
from policy.cluster.words import ending_in_words, listed
from policy.placement.binding import (
    CLOSED,
    HELD,
    HOLDERS,
    JOBS,
    LEAVING,
    OTHERS,
    REFUSED,
    Binding,
    Blocker,
    binding,
    lift,
    needed_of,
)
from policy.placement.fit import accepts
from policy.placement.gang import Ask, fits
from policy.placement.room import Room

ROOMS: Final = frozenset((*HOLDERS, CLOSED))
HOLD: Final = {
    HELD: "pods of finished jobs hold the room",
    OTHERS: "pods that Kohort does not schedule hold the room",
}
MOST_NAMED: Final = 3
Taken = dict[str, Resources]  # by node


@dataclass(frozen=True, slots=True)
class Part:
    """The room that one holder has on one node.

    kind: one of ``HOLDERS``; empty if the room is never assumed to be released. name: the pod or job, as
    ``namespace/name``. pod: the pod that holds it; None for a plan, and for room that is promised to a pod.
    """

    kind: str
    name: str
    node: str
    requests: Resources
    pod: Pod | None = None

    @property
    def holder(self) -> str:
        """The holder's name for people: the job, or the pod with its node."""
        return self.name if self.kind in (JOBS, HELD) else f"{self.name} on {self.node}"


def parts(snapshot: Snapshot, own: str = "") -> Iterator[Part]:
    """Yield the room that pods, plans and promises hold; that of the job ``own`` has an empty kind."""
    for key, charge in snapshot.charges.items():
        for of, (node, requests) in charge.items():
            pod = snapshot.pods.get(of) if isinstance(of, str) else None
            if key == key_of(node):
                yield Part(OTHERS, _promised_to(snapshot, node), node, requests)
            elif pod is not None:
                yield _pod_part(snapshot, pod, own, requests)
            else:
                job = snapshot.jobs.get(key)
                yield Part("" if key == own else JOBS, job.key if job is not None else key, node, requests)


def _pod_part(snapshot: Snapshot, pod: Pod, own: str, requests: Resources) -> Part:
    kind = _kind_of(snapshot, pod, own)
    name = snapshot.jobs[pod.job_uid].key if kind in (JOBS, HELD) else pod.key
    return Part(kind, name, pod.node, requests, pod)


def _kind_of(snapshot: Snapshot, pod: Pod, own: str) -> str:
    job = snapshot.jobs.get(pod.job_uid)
    # the room of a terminating pod becomes free, except that of a preempted pod, which is promised to the preemptor
    if pod.terminating and not pod.preempted:
        return LEAVING
    if not pod.opted_in or job is None or pod.preempted:
        return OTHERS
    if job.uid == own:
        return ""
    return HELD if job.finished and job.keeps_pods else JOBS


def _promised_to(snapshot: Snapshot, node: str) -> str:
    promised = snapshot.preemptions.get(node)
    claims = promised.claims if promised is not None else ()
    pods = [snapshot.pods[claim.uid] for claim in claims if claim.uid in snapshot.pods]
    return ", ".join(sorted(pod.key for pod in pods)) or f"a pod that is to come to {node}"


class Holders:
    """The room of the nodes, for questions about what would be free if a kind of holder released its room."""

    def __init__(self, snapshot: Snapshot, own: str = "") -> None:
        """Sort the charges by holder; the room of the job ``own`` is never assumed to be released."""
        self._snapshot = snapshot
        self.parts = tuple(parts(snapshot, own))
        self._taken: dict[str, Taken] = defaultdict(dict)
        for part in self.parts:
            taken = self._taken[part.kind]
            taken[part.node] = taken.get(part.node, NOTHING) + part.requests
        self._rooms: dict[frozenset[str], Room] = {}

    def without(self, lifted: frozenset[str]) -> Room:
        """Return the room if these holders released theirs, and with all nodes open if ``CLOSED`` is among them.

        Callers must not change the result.
        """
        lifted = lifted & ROOMS
        if not lifted:
            return Room.of(self._snapshot)
        if lifted not in self._rooms:
            maps = [taken for kind, taken in self._taken.items() if kind not in lifted]
            self._rooms[lifted] = _room(self._snapshot, maps, lifted)
        return self._rooms[lifted]

    def binding(self, ask: Ask) -> Binding | None:
        """Return the constraints that keep the gang from the room that is free now; None if it fits."""
        return binding(self.without, ask, (LEAVING, JOBS, HELD, REFUSED, OTHERS, CLOSED))

    def blockers(self, ask: Ask) -> Iterator[Blocker]:
        """Yield what keeps the gang from the room that is free now: pods, jobs and nodes by name, then amounts."""
        found = self.binding(ask)
        if found is None:
            return
        for kind in found.names:
            if kind in (LEAVING, HELD, OTHERS):
                yield from self._named(kind, found)
            elif kind == CLOSED:
                yield self._closed(found)
            elif kind == REFUSED:
                yield refused(ask)
        yield from found.lacking(" free")
        yield from found.shape()

    def terminating(self, ask: Ask) -> list[Pod]:
        """Return the terminating pods that the gang waits for, if it would fit without them; none if it would not."""
        found = self.binding(ask)
        chosen = self._chosen(LEAVING, found) if found is not None and found.names == (LEAVING,) else ()
        return [part.pod for part in chosen if part.pod is not None]

    def _named(self, kind: str, found: Binding) -> Iterator[Blocker]:
        """Yield the holders of that kind that must let their room go."""
        chosen = self._chosen(kind, found, MOST_NAMED)
        if kind == LEAVING:
            ending = [part.pod for part in chosen if part.pod is not None]
            yield from (Blocker(kind, (pod.key, *pod.finalizers), ending_in_words(pod)) for pod in ending)
            return
        names = tuple(dict.fromkeys(part.holder for part in chosen))
        yield Blocker(kind, names, f"{HOLD[kind]}: {', '.join(names)}")

    def _chosen(self, kind: str, found: Binding, most: int | None = None) -> tuple[Part, ...]:
        """Return the holders of that kind that must let their room go, the largest ones if there is a choice."""
        rest = self.without(frozenset(found.names) - {kind})
        ask = lift(found.ask, found.names)

        def enough(some: Sequence[Part]) -> bool:
            room = rest.branch()
            for part in some:
                room.give(part.node, part.requests)
            return fits(room, ask)

        ordered = sorted((part for part in self.parts if part.kind == kind), key=self._size)
        return needed_of(ordered, enough, most)

    def _size(self, part: Part) -> tuple[float, str, str]:
        node = self._snapshot.nodes.get(part.node)
        whole = node.allocatable.amounts if node is not None else {}
        return -largest_share(part.requests.amounts, whole), part.node, part.name

    def _closed(self, found: Binding) -> Blocker:
        opened = self.without(frozenset(found.names))
        ask, nodes = lift(found.ask, found.names), self._snapshot.nodes
        closed = [name for name, node in sorted(nodes.items()) if _shut(node)]

        def enough(some: Sequence[str]) -> bool:
            return fits(opened.but(set(closed).difference(some)), ask)

        chosen = needed_of(closed, enough, MOST_NAMED)
        return Blocker(CLOSED, chosen, ", ".join(f"{name} is {_shut(nodes[name])}" for name in chosen))


@until_emptied_room_changes
def emptied_without(snapshot: Snapshot, lifted: frozenset[str]) -> Room:
    """Return the room as if no job of Kohort's ran, without the holders and closed nodes in ``lifted``.

    ``lifted`` may have ``HELD``, ``OTHERS`` and ``CLOSED``. Callers must not change the result. A terminating pod that
    Kohort does not schedule is one of ``OTHERS``.
    """
    if lifted <= {HELD}:
        room = Room.without_jobs(snapshot)
        for node, requests in () if lifted else _kept(snapshot).items():
            room.take(node, requests)
        return room
    maps = [] if OTHERS in lifted else [snapshot.foreign]
    return _room(snapshot, maps if HELD in lifted else [*maps, _kept(snapshot)], lifted)


def _kept(snapshot: Snapshot) -> Taken:
    """Return the room of the pods that finished jobs keep (cleanPodPolicy None), by node."""
    taken: Taken = {}
    for uid in snapshot.index.keeping:
        for pod in snapshot.every_pod_of(uid):
            if pod.holds_room:
                taken[pod.node] = taken.get(pod.node, NOTHING) + pod.requests
    return taken


def binding_of_empty(snapshot: Snapshot, ask: Ask) -> Binding | None:
    """Return the constraints that keep the gang from the room that is free once all running jobs have ended; None if it
    fits.
    """
    return binding(lambda names: emptied_without(snapshot, names & ROOMS), ask, (HELD, REFUSED, OTHERS, CLOSED))


def blockers_of_empty(snapshot: Snapshot, found: Binding) -> Iterator[Blocker]:
    """Yield the constraints that ``binding_of_empty`` has found.

    To be fast, it names no holders of room, and only the first of the closed nodes.
    """
    if CLOSED in found.names:
        closed = [
            node for _, node in sorted(snapshot.nodes.items())
            if _shut(node) and any(accepts(node.reopened, rules) for rules in found.ask.constraints)
        ]  # fmt: skip
        told = listed([f"{node.name} is {_shut(node)}" for node in closed], MOST_NAMED)
        yield Blocker(CLOSED, tuple(node.name for node in closed), told)
    if REFUSED in found.names:
        yield refused(found.ask)
    yield from found.lacking(" left")
    yield from found.shape()


def _shut(node: Node) -> str:
    """Return why the node is closed to new pods; empty if it is open.

    For a moment after a node is uncordoned or becomes ready again, Kubernetes leaves its taint in place.
    """
    return node.closed or ("still tainted as closed" if node.taints != node.reopened.taints else "")


def refused(ask: Ask) -> Blocker:
    """Return as a blocker the nodes that kube-scheduler did not offer for the gang."""
    names = tuple(sorted(ask.barred))
    return Blocker(REFUSED, names, f"kube-scheduler's own plugins refuse {listed(names, MOST_NAMED)}")


def _room(snapshot: Snapshot, maps: Iterable[Mapping[str, Resources]], lifted: frozenset[str]) -> Room:
    """Return the nodes' resources less what ``maps`` (by node) take; all nodes are open if ``CLOSED`` is in
    ``lifted``.
    """
    taken: Taken = {}
    for one in maps:
        for node, requests in one.items():
            taken[node] = taken.get(node, NOTHING) + requests
    nodes = snapshot.nodes if CLOSED not in lifted else {name: node.reopened for name, node in snapshot.nodes.items()}
    return Room(Capacity.of(nodes, taken, {} if OTHERS in lifted else snapshot.preemptions))
