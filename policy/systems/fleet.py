"""The cluster as a rebalancer sees it: what runs on each node, which jobs may be moved, and whether moves may begin.

A "container" of SpeCon's paper is a member here: a gang counts with all its members. It can be moved only if all of
them are on one node, and they move together. Each move is counted before the next one is chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from policy.cluster.actions import Action, Admit, Decision, Migrate, Resize
from policy.cluster.gang import Gang, State
from policy.cluster.job import Job, queued
from policy.cluster.reasons import Lasts
from policy.cluster.snapshot import Snapshot, demand
from policy.placement.gang import ask_of, takes_all
from policy.placement.room import Room
from policy.systems.base import Promised
from policy.systems.growth import Category


@dataclass(frozen=True, slots=True)
class Movable:
    """A job that may be moved as a whole, and the node on which all its members are.

    category: its category in SpeCon. since: when it joined CC (``Category.CONVERGED``), seconds since the epoch.
    """

    job: Job
    gang: Gang
    node: str
    category: Category = Category.PROGRESSING
    since: float | None = None

    @property
    def size(self) -> int:
        """The number of containers that move together."""
        return len(self.gang.nodes)


class Fleet:
    """The nodes as they will be after the moves chosen so far in this step.

    ``on``: the number of containers on each node, by category. ``room``: the free room. ``expected``: the nodes to
    which a job is moving.

    ``decided``: the decision of this step so far; the jobs that it admits are counted on their nodes. ``promised``: the
    room that the deciding system's plans need later.
    """

    def __init__(
        self, snapshot: Snapshot, decided: Decision, categories: Mapping[str, Category], promised: Promised | None
    ) -> None:
        self.snapshot, self._promised = snapshot, promised or Promised()
        self.room = room_after(snapshot, decided.actions)
        self.on: dict[str, Counter[Category]] = {name: Counter() for name in self.room}
        self.expected: set[str] = set()
        for job in snapshot.running():
            gang = snapshot.gang(job.uid)
            self._count(gang.nodes.values(), categories.get(job.uid, Category.PROGRESSING))
            if gang.state is State.MIGRATING:
                self.expected.update(gang.nodes.values())
        for action in decided.actions:
            if isinstance(action, Admit):
                self._count(action.nodes.values(), Category.PROGRESSING)

    def _count(self, nodes: Iterable[str], category: Category) -> None:
        for node in nodes:
            if node in self.on:
                self.on[node][category] += 1

    def count(self, node: str) -> int:
        """Return |w|, the number of containers on the node."""
        return self.on[node].total()

    def score(self, node: str, weights: Mapping[Category, float]) -> float:
        """Return S of Algorithm 2, line 3: the sum of the weights of the containers on the node."""
        return sum(weights[category] * count for category, count in self.on[node].items())

    def usage(self, node: str) -> float:
        """Return R(w, t): the share of the node's CPU that is used, or requested where use is not measured.

        Requests that this step's decisions add to the node count as use. The share only decides between nodes that are
        equal otherwise.
        """
        whole, free = self.room.nodes[node].allocatable["cpu"], self.room.free(node)["cpu"]
        if not whole:
            return 0.0
        if node not in self.snapshot.usage:
            return 1.0 - free / whole
        return (self.snapshot.usage[node]["cpu"] + self.snapshot.free(node)["cpu"] - free) / whole

    def takes(self, node: str, one: Movable) -> bool:
        """Tell whether the whole job at its present size fits on that node now, without room that the deciding system's
        plans need later.
        """
        ask = ask_of(self.snapshot, one.job, one.gang.workers)
        fits = node in self.on and ask.whole.fits(self.room.free(node)) and takes_all(self.room.nodes[node], ask)
        return fits and self._promised.leaves(one.job.uid, node)

    def move(self, one: Movable, node: str) -> Migrate:
        """Return the action that moves the job, and count it on its new node; the old room stays charged as well."""
        self.on[one.node][one.category] -= one.size
        self.on[node][one.category] += one.size
        self.room.take(node, ask_of(self.snapshot, one.job, one.gang.workers).whole)
        self.expected.add(node)
        self._promised.moved(one.job.uid, node)
        return Migrate(one.job.uid, dict.fromkeys(one.gang.nodes, node))


def movable(snapshot: Snapshot, decided: Decision) -> Iterator[Movable]:
    """Yield the jobs that can be moved: all members run on one usable node, and no action of ``decided`` is about the
    job.
    """
    touched = {action.job_uid for action in decided.actions if isinstance(action, Admit | Resize | Migrate)}
    for job in snapshot.running():
        gang = snapshot.gang(job.uid)
        nodes = set(gang.nodes.values())
        if len(nodes) == 1 and job.uid not in touched and _settled(snapshot, job, gang):
            host = snapshot.nodes.get(node := nodes.pop())
            if host is not None and host.usable:
                yield Movable(job, gang, node)


def _settled(snapshot: Snapshot, job: Job, gang: Gang) -> bool:
    """Tell whether the job can be moved and runs at its target, with every pod on its planned node."""
    if not (job.migratable and queued(job) and gang.whole and gang.state is State.RUNNING) or gang.in_flight:
        return False
    pods = {pod.slot: pod for pod in snapshot.every_pod_of(job.uid)}
    return len(job.slots(gang.workers)) == len(gang.nodes) == len(pods) and all(
        (pod := pods.get(slot)) is not None and pod.node == node and pod.holds_room and not pod.terminating
        for slot, node in gang.nodes.items()
    )


def at_rest(snapshot: Snapshot, decided: Decision) -> bool:
    """Tell whether no job waits for room or is being repaired; otherwise nothing is moved, because a move needs room
    twice.
    """
    gangs = snapshot.gangs.values()
    freeing = any(gang.waits_for or gang.state is State.REPAIRING for gang in gangs)
    taking = any(isinstance(action, Admit | Resize) and action.waits_for for action in decided.actions)
    waiting = any(verdict.reason.lasts in (Lasts.TURN, Lasts.LIMIT) for verdict in decided.verdicts.values())
    return not (freeing or taking or waiting)


def room_after(snapshot: Snapshot, actions: Iterable[Action]) -> Room:
    """Return the snapshot's free room less the room that the actions give to jobs.

    Room that a shrink among the actions will free does not count, because it is not free yet.
    """
    room = Room.of(snapshot)
    for action in actions:
        if isinstance(action, Admit | Resize | Migrate):
            job, planned = snapshot.jobs[action.job_uid], snapshot.gang(action.job_uid).nodes
            for slot, node in action.nodes.items():
                if planned.get(slot) != node:
                    room.take(node, demand(job, slot, snapshot.member(job.uid, slot)))
    return room
