"""A rebalancer of this project's own, whose moves harm no other job (docs/policies/specon.md has the argument).

SpeCon spreads jobs evenly over the nodes, so a job becomes slower with each job that is moved to its node. Here a job
is moved only to a node that is empty, and moved away when a new job is admitted to that node. A job on a node to which
it was moved is a guest; its home is the node on which it was admitted. So a job shares its home with no more jobs than
it would without any moves; a guest can only lose the time that its moves take. No metric is used, so none can be
forged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from policy.cluster.actions import Action, Admit, Decision, Remember
from policy.cluster.frozen import replace
from policy.cluster.gang import ADMITTED
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Parts, Promised, Rebalancer, from_0
from policy.systems.evenly import admit_evenly
from policy.systems.fleet import Fleet, Movable, at_rest, movable

# The policy's memory holds a guest's home under this prefix and the job's uid; a job without an entry is at home.
KEY = "guests/home/"
# The policy's memory holds under this key the time at which jobs were last moved to empty nodes.
CLOCK = "guests/clock"


@dataclass(frozen=True, slots=True)
class Guests(Rebalancer):
    """The parameters of ``guests``.

    interval: the least time between two rounds of moves to empty nodes, seconds. Guests make way for new jobs at once.
    """

    name: ClassVar[str] = "guests"
    keeps: ClassVar[bool] = True

    interval: float = 30.0

    def __post_init__(self) -> None:
        from_0(self, "interval")

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Admit gangs first come, first served, spread evenly as SpeCon does; then move jobs."""
        admitted = admit_evenly(snapshot, now)
        return replace(admitted, actions=(*admitted.actions, *self.moves(snapshot, admitted, now)))

    def parts(self, memory: Mapping[str, object]) -> Mapping[str, Parts]:
        """Return the home of each guest by uid, for the job's object; jobs that are at home have none."""
        return {key.removeprefix(KEY): {self.name: str(node)} for key, node in memory.items() if key.startswith(KEY)}

    def recalled(self, snapshot: Snapshot, parts: Mapping[str, Parts]) -> Mapping[str, object]:
        """Return the memory of the guests' homes, read back from the job objects, without homes whose node is gone."""
        homes = {KEY + uid: part[self.name] for uid, part in parts.items() if self.name in part}
        return {key: home for key, home in homes.items() if isinstance(home, str) and home in snapshot.nodes}

    def moves(
        self, snapshot: Snapshot, decided: Decision, now: float, promised: Promised | None = None
    ) -> tuple[Action, ...]:
        """Move guests away from nodes that are home to another job now; then move old jobs to empty nodes."""
        homes = {key.removeprefix(KEY): str(node) for key, node in snapshot.memory.items() if key.startswith(KEY)}
        actions = [Remember(KEY + uid, None) for uid in homes if _gone(snapshot, uid)]
        if not at_rest(snapshot, decided):
            return tuple(actions)
        house = House(snapshot, decided, homes, promised)
        moves = list(house.give_way())
        last = snapshot.memory.get(CLOCK)
        if not isinstance(last, float) or not 0.0 <= now - last < self.interval:
            invited = list(house.invite())
            moves += [*invited, Remember(CLOCK, now)] if invited else []
        return (*actions, *moves)


def _gone(snapshot: Snapshot, uid: str) -> bool:
    """Tell whether the job has ended or was released, so that its home is forgotten.

    The next node on which it is admitted becomes its home.
    """
    return uid not in snapshot.jobs or snapshot.gang(uid).state not in ADMITTED


class House:
    """Chooses the moves of one step, from the jobs' homes (the nodes that they were admitted on).

    ``homes``: by uid, the home of each guest, which is a job that was moved away from its home. ``left``: the jobs that
    may still be moved in this step. ``taken``: the nodes that are home to a job that runs there or is admitted there in
    this step.
    """

    def __init__(self, snapshot: Snapshot, decided: Decision, homes: dict[str, str], promised: Promised | None) -> None:
        self.fleet, self.homes = Fleet(snapshot, decided, {}, promised), homes
        self.left = sorted(movable(snapshot, decided), key=lambda one: (one.job.arrival, one.job.key))
        gangs = [snapshot.gang(job.uid) for job in snapshot.running()]
        settled = {node for gang in gangs for node in gang.nodes.values() if homes.get(gang.job_uid, node) == node}
        arriving = {node for act in decided.actions if isinstance(act, Admit) for node in act.nodes.values()}
        self.taken = settled | arriving

    def give_way(self) -> Iterator[Action]:
        """Move each guest on a node that is home to another job to an empty node, or home if there is none."""
        for guest in [one for one in self.left if one.job.uid in self.homes]:
            home = self.homes[guest.job.uid]
            if guest.node != home and guest.node in self.taken:
                empty = [node for node in self.fleet.room if self.fleet.count(node) == 0]
                target = next((node for node in [*empty, home] if self.fleet.takes(node, guest)), None)
                if target is not None:
                    yield from self._move(guest, target)

    def invite(self) -> Iterator[Action]:
        """Move one job to each empty node, so that this job and those that it leaves behind become faster.

        The job comes from the fullest node on which at least as many members stay as leave.
        """
        for node in [name for name in self.fleet.room if self.fleet.count(name) == 0]:
            ready = [one for one in self.left if self.fleet.count(one.node) >= 2 * one.size]
            ready = [one for one in ready if self.fleet.takes(node, one)]
            if ready:
                most = max(self.fleet.count(one.node) for one in ready)
                yield from self._move(next(one for one in ready if self.fleet.count(one.node) == most), node)

    def _move(self, one: Movable, node: str) -> Iterator[Action]:
        """Yield the actions that move the job to ``node`` and remember its home, the node that it was admitted on.

        The job is removed from ``left``, so that it is moved at most once in a step.
        """
        self.left.remove(one)
        home = self.homes.setdefault(one.job.uid, one.node)
        yield self.fleet.move(one, node)
        yield Remember(KEY + one.job.uid, None if node == home else home)
