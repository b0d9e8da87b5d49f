"""This project's answer to SpeCon: moves that harm nobody (docs/policies/specon.md has the argument and the figures).

SpeCon evens the nodes out, so that whoever runs on a node that is given a job pays for it. Here a job is only ever a
guest: it is invited to a node that would be idle, and leaves it when that node is given a job of its own. A job shares
its own node with no more jobs than it would if nothing were moved; what a guest can lose is the time that its moves
take. No metric is asked for, so none can be forged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from policy.cluster.actions import Action, Admit, Decision, Remember
from policy.cluster.frozen import replace
from policy.cluster.gang import ADMITTED
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Parts, Promised, Rebalancer
from policy.systems.bounds import from_0
from policy.systems.evenly import admit_evenly
from policy.systems.fleet import Fleet, Movable, at_rest, movable

KEY = "guests/home/"  # where a guest belongs; a job without an entry is at home
CLOCK = "guests/clock"  # when somebody was invited last


@dataclass(frozen=True, slots=True)
class Guests(Rebalancer):
    """interval: the least time between two rounds of invitations, seconds; guests give way at once."""

    interval: float = 30.0

    def __post_init__(self) -> None:
        from_0(self, "interval")

    @property
    def name(self) -> str:
        """Return ``guests``."""
        return "guests"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Admit gangs first come, first served, evenly placed, as SpeCon does; then make the moves."""
        admitted = admit_evenly(snapshot, now)
        return replace(admitted, actions=(*admitted.actions, *self.moves(snapshot, admitted, now)))

    @property
    def keeps(self) -> bool:
        """Whether what is remembered of a job stands on its object: it does."""
        return True

    def parts(self, memory: Mapping[str, object]) -> Mapping[str, Parts]:
        """Return where each guest belongs."""
        return {key.removeprefix(KEY): {self.name: str(node)} for key, node in memory.items() if key.startswith(KEY)}

    def recalled(self, snapshot: Snapshot, parts: Mapping[str, Parts]) -> Mapping[str, object]:
        """Return the homes by job, if their nodes are still there."""
        homes = {KEY + uid: part[self.name] for uid, part in parts.items() if self.name in part}
        return {key: home for key, home in homes.items() if isinstance(home, str) and home in snapshot.nodes}

    def moves(
        self, snapshot: Snapshot, decided: Decision, now: float, promised: Promised | None = None
    ) -> tuple[Action, ...]:
        """Move guests from nodes that have a job of their own again; then let idle nodes invite the oldest jobs."""
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
    """Tell whether the job has ended or was released: where it is placed next it is at home."""
    return uid not in snapshot.jobs or snapshot.gang(uid).state not in ADMITTED


class House:
    """Who is at home where, and who is a guest."""

    def __init__(self, snapshot: Snapshot, decided: Decision, homes: dict[str, str], promised: Promised | None) -> None:
        self.fleet, self.homes = Fleet(snapshot, decided, {}, promised), homes
        self.left = sorted(movable(snapshot, decided), key=lambda one: (one.job.arrival, one.job.key))
        gangs = [snapshot.gang(job.uid) for job in snapshot.running()]
        settled = {node for gang in gangs for node in gang.nodes.values() if homes.get(gang.job_uid, node) == node}
        arriving = {node for act in decided.actions if isinstance(act, Admit) for node in act.nodes.values()}
        self.taken = settled | arriving

    def give_way(self) -> Iterator[Action]:
        """Move guests from a node that has a job of its own to an empty one, else home."""
        for guest in [one for one in self.left if one.job.uid in self.homes]:
            home = self.homes[guest.job.uid]
            if guest.node != home and guest.node in self.taken:
                empty = [node for node in self.fleet.room if self.fleet.count(node) == 0]
                target = next((node for node in [*empty, home] if self.fleet.takes(node, guest)), None)
                if target is not None:
                    yield from self._move(guest, target)

    def invite(self) -> Iterator[Action]:
        """Let each empty node take one job of the fullest node that has two at least: the others there gain, too."""
        for node in [name for name in self.fleet.room if self.fleet.count(name) == 0]:
            ready = [one for one in self.left if self.fleet.count(one.node) >= 2 * one.size]
            ready = [one for one in ready if self.fleet.takes(node, one)]
            if ready:
                most = max(self.fleet.count(one.node) for one in ready)
                yield from self._move(next(one for one in ready if self.fleet.count(one.node) == most), node)

    def _move(self, one: Movable, node: str) -> Iterator[Action]:
        """Move the job, which moves once in a step at most."""
        self.left.remove(one)
        home = self.homes.setdefault(one.job.uid, one.node)
        yield self.fleet.move(one, node)
        yield Remember(KEY + one.job.uid, None if node == home else home)
