"""Who holds the room of the nodes, and how much would be free if some of the holders released it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from policy.cluster.capacity import Capacity
from policy.cluster.charges import NO_CHARGE, key_of
from policy.cluster.kept import until_anything_changes, until_emptied_room_changes
from policy.cluster.node import Node
from policy.cluster.pod import Pod
from policy.cluster.resources import NOTHING, Resources, largest_share
from policy.cluster.snapshot import Charge, Snapshot
from policy.cluster.words import ending_in_words, listed
from policy.placement.ask import Ask
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
from policy.placement.gang import fits
from policy.placement.room import Room

ROOMS: Final = frozenset((*HOLDERS, CLOSED))
NOT_JOBS: Final = frozenset(HOLDERS) - {JOBS}
HOLD: Final = {
    HELD: "pods of finished jobs hold the room",
    OTHERS: "pods that Kohort does not schedule hold the room",
}
MOST_NAMED: Final = 3
Taken = dict[str, Resources]  # The keys of Taken are names of nodes.


@dataclass(frozen=True, slots=True)
class Part:
    """The room that one holder has on one node.

    kind: one of ``HOLDERS``. name: the pod or job, as ``namespace/name``. job: the uid of the job if it is a job. pod:
    the pod that holds the room; None for a plan, and for room that is promised to a pod.
    """

    kind: str
    name: str
    node: str
    requests: Resources
    job: str = ""
    pod: Pod | None = None

    @property
    def holder(self) -> str:
        """The holder's name for people: the job, or the pod with its node."""
        return self.name if self.job else f"{self.name} on {self.node}"


def parts(snapshot: Snapshot, charges: Iterable[tuple[str, Charge]], kinds: Collection[str]) -> Iterator[Part]:
    """Yield the room that holders of these kinds have, of these entries of ``Snapshot.charges``."""
    pod_of = snapshot.pods.get
    for key, charge in charges:
        for of, (node, requests) in charge.items():
            pod = pod_of(of) if isinstance(of, str) else None
            if pod is not None:
                if (kind := _kind_of(snapshot, pod)) in kinds:
                    yield _pod_part(snapshot, pod, kind, requests)
            elif key == key_of(node):
                if OTHERS in kinds:
                    yield Part(OTHERS, _promised_to(snapshot, node), node, requests)
            elif JOBS in kinds:
                job = snapshot.jobs.get(key)
                yield Part(JOBS, job.key if job is not None else key, node, requests, key)


def _pod_part(snapshot: Snapshot, pod: Pod, kind: str, requests: Resources) -> Part:
    if kind in (JOBS, HELD):
        return Part(kind, snapshot.jobs[pod.job_uid].key, pod.node, requests, pod.job_uid, pod)
    return Part(kind, pod.key, pod.node, requests, "", pod)


def _kind_of(snapshot: Snapshot, pod: Pod) -> str:
    job = snapshot.jobs.get(pod.job_uid)
    # The room of a terminating pod becomes free, but a preempted pod's room does not: it is promised to the preemptor.
    if pod.terminating and not pod.preempted:
        return LEAVING
    if not pod.opted_in or job is None or pod.preempted:
        return OTHERS
    return HELD if job.finished and job.keeps_pods else JOBS


def _promised_to(snapshot: Snapshot, node: str) -> str:
    promised = snapshot.preemptions.get(node)
    claims = promised.claims if promised is not None else ()
    pods = [snapshot.pods[claim.uid] for claim in claims if claim.uid in snapshot.pods]
    return ", ".join(sorted(pod.key for pod in pods)) or f"a pod that is to come to {node}"


class _EveryHolder:
    """Computes how much room one snapshot would have if some kinds of holders released theirs; results are cached.

    not_jobs: the parts of room whose holders are not running jobs of Kohort's.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.not_jobs = tuple(parts(snapshot, snapshot.charges.items(), NOT_JOBS))
        closed = {CLOSED} if any(_shut(node) for node in snapshot.nodes.values()) else set()
        self._there = frozenset(closed.union((JOBS, *(part.kind for part in self.not_jobs))))
        self._rooms: dict[frozenset[str], Room] = {}

    def without(self, lifted: frozenset[str]) -> Room:
        """Return the room if these holders released theirs, and with all nodes open if ``CLOSED`` is among them.

        Callers must not change the result.
        """
        lifted = lifted & self._there
        if not lifted:
            return Room.of(self._snapshot)
        if lifted not in self._rooms:
            self._rooms[lifted] = _room(self._snapshot, self._taken(lifted), lifted)
        return self._rooms[lifted]

    def _taken(self, lifted: frozenset[str]) -> Taken:
        """Return the room of the holders that are not in ``lifted``, by node."""
        taken = {} if JOBS in lifted else dict(self._snapshot.charged)
        for part in self.not_jobs:
            if JOBS in lifted and part.kind not in lifted:
                taken[part.node] = taken.get(part.node, NOTHING) + part.requests
            elif JOBS not in lifted and part.kind in lifted:
                taken[part.node] -= part.requests
        return taken


_every_holder = until_anything_changes(_EveryHolder)


class Holders:
    """The room of the nodes, for questions about what would be free if a kind of holder released its room."""

    def __init__(self, snapshot: Snapshot, own: str = "") -> None:
        """Take the holders of the snapshot; the room of the job ``own`` is never assumed to be released."""
        self._snapshot, self._every = snapshot, _every_holder(snapshot)
        keys = (own, *(pod.uid for pod in snapshot.every_pod_of(own)))
        charges = ((key, snapshot.charges.get(key, NO_CHARGE)) for key in keys)
        self._own = tuple(parts(snapshot, charges, (JOBS, HELD)))
        self._rooms: dict[frozenset[str], Room] = {}

    def without(self, lifted: frozenset[str]) -> Room:
        """Return the room as it would be if the kinds of holders in ``lifted`` released theirs.

        If ``CLOSED`` is in ``lifted``, all nodes count as open, too. Callers must not change the result.
        """
        lifted = lifted & ROOMS
        kept = [part for part in self._own if part.kind in lifted]
        if not kept:
            return self._every.without(lifted)
        if lifted not in self._rooms:
            room = self._rooms[lifted] = self._every.without(lifted).branch()
            for part in kept:
                room.take(part.node, part.requests)
        return self._rooms[lifted]

    def binding(self, ask: Ask) -> Binding | None:
        """Return the constraints that keep a gang with this request from the room that is free now; None if it fits."""
        return binding(self.without, ask, (LEAVING, JOBS, HELD, REFUSED, OTHERS, CLOSED))

    def blockers(self, ask: Ask) -> Iterator[Blocker]:
        """Yield what keeps a gang from the room that is free now: pods, finished jobs and nodes, then amounts."""
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
        """Return the terminating pods for whose room the gang waits; none unless it would fit once they are gone."""
        found = self.binding(ask)
        chosen = self._chosen(LEAVING, found) if found is not None and found.names == (LEAVING,) else ()
        return [part.pod for part in chosen if part.pod is not None]

    def _named(self, kind: str, found: Binding) -> Iterator[Blocker]:
        """Yield as blockers the holders of that kind whose room the gang needs."""
        chosen = self._chosen(kind, found, MOST_NAMED)
        if kind == LEAVING:
            ending = [part.pod for part in chosen if part.pod is not None]
            yield from (Blocker(kind, (pod.key, *pod.finalizers), ending_in_words(pod)) for pod in ending)
            return
        names = tuple(dict.fromkeys(part.holder for part in chosen))
        yield Blocker(kind, names, f"{HOLD[kind]}: {', '.join(names)}")

    def _chosen(self, kind: str, found: Binding, most: int | None = None) -> tuple[Part, ...]:
        """Return the parts of room of that kind that the gang needs, at most ``most`` of them.

        If there is a choice, the largest parts are taken.
        """
        rest = self.without(frozenset(found.names) - {kind})
        ask = lift(found.ask, found.names)

        def enough(some: Sequence[Part]) -> bool:
            room = rest.branch()
            for part in some:
                room.give(part.node, part.requests)
            return fits(room, ask)

        others = (part for part in self._every.not_jobs if part.kind == kind and part not in self._own)
        ordered = sorted(others, key=self._size)
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
    """Return the room as if no job of Kohort's ran and the constraints in ``lifted`` did not exist.

    ``HELD`` in ``lifted`` frees the room of pods that finished jobs keep, ``OTHERS`` the room of foreign pods, also of
    terminating ones, and ``CLOSED`` opens all nodes. Callers must not change the result.
    """
    if lifted <= {HELD}:
        room = Room.without_jobs(snapshot)
        for node, requests in () if lifted else _kept(snapshot).items():
            room.take(node, requests)
        return room
    taken: Taken = {} if OTHERS in lifted else dict(snapshot.foreign)
    for node, requests in () if HELD in lifted else _kept(snapshot).items():
        taken[node] = taken.get(node, NOTHING) + requests
    return _room(snapshot, taken, lifted)


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
    """Yield as blockers the constraints that ``binding_of_empty`` has found.

    To be fast, this names no holders of room, and in the text only the first of the closed nodes.
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
    """Return in words why the node is closed to new pods; empty if it is open.

    A taint is one of the reasons, because Kubernetes removes the taint only a moment after a node is uncordoned or
    becomes ready again.
    """
    return node.closed or ("still tainted as closed" if node.taints != node.reopened.taints else "")


def refused(ask: Ask) -> Blocker:
    """Return a blocker that names the nodes that kube-scheduler did not offer for the gang."""
    names = tuple(sorted(ask.barred))
    return Blocker(REFUSED, names, f"kube-scheduler's own plugins refuse {listed(names, MOST_NAMED)}")


def _room(snapshot: Snapshot, taken: Taken, lifted: frozenset[str]) -> Room:
    """Return the nodes' resources less ``taken`` (by node); all nodes are open if ``CLOSED`` is in ``lifted``."""
    nodes = snapshot.nodes if CLOSED not in lifted else {name: node.reopened for name, node in snapshot.nodes.items()}
    return Room(Capacity.of(nodes, taken, {} if OTHERS in lifted else snapshot.preemptions))
