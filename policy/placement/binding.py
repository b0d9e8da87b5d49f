"""Which constraints keep a gang from being placed: what holds the room, closed nodes, taints, or an amount.

Each constraint can be lifted on a working copy of the room. The constraints that bind are a set without which the gang
would have nodes, and of which none may be left out: while one of them is there, the gang has no nodes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from policy.cluster.frozen import replace
from policy.cluster.model import WORKER, Constraints, Node, Slot, Toleration
from policy.cluster.resources import HOST_PORT, Resources
from policy.cluster.words import counted, listed, said
from policy.placement.fit import accepts, untolerated
from policy.placement.gang import Ask, fits
from policy.placement.room import Room

LEAVING: Final = "terminating pods"
JOBS: Final = "jobs"
HELD: Final = "finished jobs"
OTHERS: Final = "other pods"
HOLDERS: Final = (LEAVING, JOBS, HELD, OTHERS)
"""Who holds room, each a constraint; the room that other schedulers have promised to their pods is of ``OTHERS``."""
CLOSED: Final = "closed nodes"
REFUSED: Final = "refused nodes"
SHAPE: Final = "shape"  # what the gang itself asks for: amounts of resources, and RULES
RULES: Final = "rules"
"""Taints, node selector and node affinity, as one constraint."""
EVERYWHERE: Final = Constraints(tolerations=(Toleration("", "Exists", "", ""),))
MOST_NODES_NAMED: Final = 3
T = TypeVar("T")
RoomWithout = Callable[[frozenset[str]], Room]  # the room without these of HOLDERS and CLOSED; nobody may change it


def least(items: Sequence[T], enough: Callable[[Sequence[T]], bool], most: int | None = None) -> tuple[T, ...]:
    """Return some of the items that together are enough, of which none may be left out; empty if all are not enough.

    Items at the front are preferred. ``enough`` must stay true if items are added; it is called about log2(n) times for
    each item of the result. The search ends when ``most`` items are found.
    """
    found: list[T] = []
    left = list(items)
    while len(found) != most and not enough(found):
        count = bisect_left(range(len(left) + 1), True, key=lambda some: enough([*left[:some], *found]))
        if not 0 < count <= len(left):
            return ()
        found.insert(0, left[count - 1])
        del left[count - 1 :]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Blocker:
    """One thing that keeps a gang from being placed.

    kind: who holds the room, or ``CLOSED``, ``REFUSED`` or ``SHAPE``. values: the resources, pods, jobs or nodes that
    ``text`` tells of.
    """

    kind: str
    values: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Binding:
    """The constraints that bind a gang.

    names: these must all be lifted; none if the gang has no nodes even then. instead: if ``names`` is one resource or
    ``RULES``, the other ones of that kind each of which could be lifted in place of it.
    """

    ask: Ask
    names: tuple[str, ...]
    instead: tuple[str, ...]
    without: RoomWithout

    def shape(self, what: str = "") -> Iterator[Blocker]:
        """Yield the amounts and rules of the gang that bind; ``what`` is added to the amounts that nodes have."""
        lifted = frozenset(self.names)
        if names := [name for name in (*self.names, *self.instead) if is_shape(name)]:
            room, ask = self.without(lifted), lift(self.ask, lifted & {REFUSED})
            told = (_told(room, ask, name, what) for name in names)
            yield Blocker(SHAPE, tuple(names), ("; or " if self.instead else "; and ").join(told))
        if not self.names:
            yield Blocker(SHAPE, (), "there is no node that takes pods")

    def lacking(self, what: str) -> Iterator[Blocker]:
        """Yield the amounts that the holders of room among ``names`` leave too little of."""
        lifted = frozenset(self.names)
        if not lifted.isdisjoint(HOLDERS):
            held = self.without(lifted.difference(HOLDERS))
            beside = binding(lambda _: held, lift(self.ask, lifted), ())
            yield from beside.shape(what) if beside is not None else ()


def binding(without: RoomWithout, ask: Ask, states: Sequence[str]) -> Binding | None:
    """Return the constraints that keep the gang from fitting; None if it fits.

    ``states``: which of ``HOLDERS``, ``REFUSED`` and ``CLOSED`` may be lifted. Of two sets of constraints, the one is
    returned that needs fewer of the last states, and resources and rules only if no set of states is enough.
    """

    def enough(lifted: Sequence[str]) -> bool:
        return fits(without(frozenset(lifted)), lift(ask, lifted))

    if enough(()):
        return None
    shape = (*sorted(ask.whole), RULES)
    names = least((*states, *shape), enough)
    alone = len(names) == 1 and names[0] in shape
    instead = tuple(name for name in shape if name != names[0] and enough((name,))) if alone else ()
    return Binding(ask, names, instead, without)


def is_shape(name: str) -> bool:
    """Tell whether the constraint is of the gang itself: a resource or ``RULES``."""
    return name not in HOLDERS and name not in (REFUSED, CLOSED)


def lift(ask: Ask, lifted: Collection[str]) -> Ask:
    """Return the request without these constraints: resources, ``RULES`` and ``REFUSED``."""
    names = {name for name in lifted if is_shape(name)}
    if REFUSED in lifted and ask.barred:
        ask = replace(ask, barred=frozenset())
    if RULES in names:
        rigid = tuple((slot, requests, EVERYWHERE) for slot, requests, _ in ask.rigid)
        ask = replace(ask, rigid=rigid, worker_constraints=EVERYWHERE)
    if names.isdisjoint(ask.whole):
        return ask
    rigid = tuple((slot, _less(requests, names), rules) for slot, requests, rules in ask.rigid)
    worker = _less(ask.worker, names)
    if worker or not ask.workers:
        return replace(ask, rigid=rigid, worker=worker)
    # Workers that ask for nothing fit on any node that accepts them, however many they are.
    one = (Slot(WORKER, 0), worker, ask.worker_constraints)
    return replace(ask, rigid=(*rigid, one), worker=worker, workers=0)


def _less(requests: Resources, names: Collection[str]) -> Resources:
    return Resources({name: amount for name, amount in requests.amounts.items() if name not in names})


def _told(room: Room, ask: Ask, name: str, what: str) -> str:
    return _rules_in_words(room, ask) if name == RULES else _in_words(room, ask, name, what)


def _in_words(room: Room, ask: Ask, name: str, what: str) -> str:
    """Return in words how much of the resource the members ask for, and how much the nodes that take them have.

    If members may go on different nodes, it is told of the first of those that lack the resource.
    """
    alike = [_Alike.of(room, ask, name, rules) for rules in sorted(ask.constraints, key=repr)]
    told = (text for one in alike if (text := one.lack(what)))
    return next(told, None) or max(alike, key=lambda one: one.whole).pieces(what)


@dataclass(frozen=True, slots=True)
class _Alike:
    """The members with the same rules: how much each asks of one resource (by role), and what their nodes have free."""

    name: str
    asked: tuple[tuple[str, int], ...]
    free: tuple[int, ...]
    such: str

    @classmethod
    def of(cls, room: Room, ask: Ask, name: str, rules: Constraints) -> _Alike:
        asked = tuple((slot.role, requests[name]) for slot, requests, own in ask.members() if own == rules)
        takers = [node for node in room if node not in ask.barred and accepts(room.nodes[node], rules)]
        such = "" if len(takers) == len(room.nodes) else " open to it"
        return cls(name, asked, tuple(room.free(node)[name] for node in takers), such)

    @property
    def whole(self) -> int:
        return sum(amount for _, amount in self.asked)

    def lack(self, what: str) -> str:
        """Return in words that a member finds no node large enough, or that all nodes have too little; else nothing."""
        if self.name.startswith(HOST_PORT):
            return self._lack_of_port()
        (role, largest), whole = max(self.asked, key=lambda one: one[1]), self.whole
        most, every = max((0, *self.free)), sum(max(0, free) for free in self.free)
        if largest > most:
            has = f"no node{self.such} has more than {said(self.name, most)}{what}"
            return f"a {role} asks for {said(self.name, largest)}, {has}"
        has = f"the nodes{self.such} have {said(self.name, every)}{what}"
        return f"{said(self.name, whole)} asked for, {has}" if whole > every else ""

    def _lack_of_port(self) -> str:
        members = sum(1 for _, amount in self.asked if amount)
        asked = f"{said(self.name, 1)} asked for by {counted(members, 'member')}"
        if members > len(self.free):
            return f"{asked}, and a node has it once"
        nodes = sum(1 for free in self.free if free >= 0)
        return f"{asked}, {counted(nodes, 'node')}{self.such} {'has' if nodes == 1 else 'have'} it free" * (
            members > nodes
        )

    def pieces(self, what: str) -> str:
        """Return in words that the nodes have enough of the resource together, but in pieces that are too small."""
        have = f"{said(self.name, sum(max(0, free) for free in self.free))}{what}"
        asked = f"{said(self.name, self.whole)} asked for"
        return f"{asked}, the nodes{self.such} have {have} in pieces that are too small"


def _rules_in_words(room: Room, ask: Ask) -> str:
    """Return in words which nodes have room for a member and refuse it by taints or affinity.

    Members that find a node are left out, unless all of them find one.
    """
    asked = {rules: requests for _, requests, rules in ask.members()}
    nodes = [room.nodes[name] for name in sorted(room)]
    homeless = [
        rules for rules, requests in asked.items()
        if not any(accepts(node, rules) and requests.fits(room.free(node.name)) for node in nodes)
    ]  # fmt: skip
    refusing = [
        why for node in nodes for rules in sorted(homeless or asked, key=repr)[:1]
        if asked[rules].fits(room.free(node.name)) and (why := _refusal(node, rules))
    ]  # fmt: skip
    return listed(refusing, MOST_NODES_NAMED) or "no node that takes it has the room"


def _refusal(node: Node, rules: Constraints) -> str:
    """Return in words which taint or affinity keeps a member with these rules from the node; empty if none does."""
    if (taint := untolerated(node, rules)) is not None:
        value = f"={taint.value}" if taint.value else ""
        return f"the taint {taint.key}{value}:{taint.effect} of {node.name} is not tolerated"
    return "" if accepts(node, rules) else f"{node.name} does not match its node selector or node affinity"
