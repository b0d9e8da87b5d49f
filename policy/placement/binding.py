"""Which constraints keep a gang from being placed: what holds the room, closed nodes, taints, or an amount.

Each constraint can be lifted on a working copy of the room. The binding constraints are a set with two properties: the
gang can be placed once all of them are lifted, and it cannot while any one of them is left.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from policy.cluster.frozen import replace
from policy.cluster.model import WORKER, Constraints, Node, Requirement, Slot, Term, Toleration
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
"""The kinds of holders of room; each is a constraint. Room that other schedulers have promised to their pods belongs to
``OTHERS``.
"""
CLOSED: Final = "closed nodes"
REFUSED: Final = "refused nodes"
SHAPE: Final = "shape"
"""The kind of the constraints that are in the gang's own requests: the name of a resource, ``TAINT`` and the key of a
taint that its pods do not tolerate, or ``LABEL`` and the key of a node label that its pods require.
"""
TAINT: Final = "taint "
LABEL: Final = "label "
"""Such a constraint stands for every entry of the node selector and the required node affinity with this key; the key
may also be the field metadata.name.
"""
MOST_NODES_NAMED: Final = 3
T = TypeVar("T")
# returns the room as if these of HOLDERS and CLOSED were lifted; its callers must not change the room
RoomWithout = Callable[[frozenset[str]], Room]


def needed_of(items: Sequence[T], enough: Callable[[Sequence[T]], bool], most: int | None = None) -> tuple[T, ...]:
    """Return a part of the items that is enough and of which no item can be left out; empty if all items are not
    enough.

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

    kind: who holds the room, or ``CLOSED``, ``REFUSED`` or ``SHAPE``. values: the names of the resources, pods, jobs or
    nodes in ``text``, which describes it in words.
    """

    kind: str
    values: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Binding:
    """The constraints that keep a gang from being placed.

    names: the constraints that must all be lifted; empty if the gang could not be placed even with every constraint
    lifted. instead: if ``names`` is one constraint of kind ``SHAPE``, the others of that kind each of which could be
    lifted in place of it.
    """

    ask: Ask
    names: tuple[str, ...]
    instead: tuple[str, ...]
    without: RoomWithout

    def shape(self, what: str = "") -> Iterator[Blocker]:
        """Yield the amounts and rules of the gang that keep it from being placed.

        ``what`` is added to the amounts that nodes have, for example " free".
        """
        lifted = frozenset(self.names)
        if names := [name for name in (*self.names, *self.instead) if is_shape(name)]:
            room = self.without(lifted)
            told = (_told(room, lift(self.ask, () if self.instead else lifted - {name}), name, what) for name in names)
            yield Blocker(SHAPE, tuple(names), ("; or " if self.instead else "; and ").join(told))
        if not self.names:
            yield Blocker(SHAPE, (), "there is no node that takes pods")

    def lacking(self, what: str) -> Iterator[Blocker]:
        """Yield the resources that the holders of room among ``names`` leave too little of."""
        lifted = frozenset(self.names)
        if not lifted.isdisjoint(HOLDERS):
            held = self.without(lifted.difference(HOLDERS))
            beside = binding(lambda _: held, lift(self.ask, lifted), ())
            yield from beside.shape(what) if beside is not None else ()


def binding(without: RoomWithout, ask: Ask, states: Sequence[str]) -> Binding | None:
    """Return the constraints that keep the gang from fitting; None if it fits.

    ``states``: which of ``HOLDERS``, ``REFUSED`` and ``CLOSED`` may be lifted. They are ordered: a set of constraints
    without the last ones is preferred. Resources and rules are in the result only if lifting all states is not enough.
    """

    def enough(lifted: Sequence[str]) -> bool:
        return fits(without(frozenset(lifted)), lift(ask, lifted))

    if enough(()):
        return None
    shape = (*sorted(ask.whole), *_rules(without(frozenset(states)), ask))
    names = needed_of((*states, *shape), enough)
    alone = len(names) == 1 and names[0] in shape
    instead = tuple(name for name in shape if name != names[0] and enough((name,))) if alone else ()
    return Binding(ask, names, instead, without)


def is_shape(name: str) -> bool:
    """Tell whether the constraint is in the gang's own requests (``SHAPE``)."""
    return name not in HOLDERS and name not in (REFUSED, CLOSED)


def lift(ask: Ask, lifted: Collection[str]) -> Ask:
    """Return the gang's request without those of these constraints that are of kind ``SHAPE`` or ``REFUSED``."""
    names = {name for name in lifted if is_shape(name)}
    if REFUSED in lifted and ask.barred:
        ask = replace(ask, barred=frozenset())
    if any(name.startswith((TAINT, LABEL)) for name in names):
        rigid = tuple((slot, requests, _relaxed(rules, names)) for slot, requests, rules in ask.rigid)
        ask = replace(ask, rigid=rigid, worker_constraints=_relaxed(ask.worker_constraints, names))
    if names.isdisjoint(ask.whole):
        return ask
    rigid = tuple((slot, _less(requests, names), rules) for slot, requests, rules in ask.rigid)
    worker = _less(ask.worker, names)
    if worker or not ask.workers:
        return replace(ask, rigid=rigid, worker=worker)
    # One worker stands for all, because workers that ask for nothing fit on any node that accepts them.
    one = (Slot(WORKER, 0), worker, ask.worker_constraints)
    return replace(ask, rigid=(*rigid, one), worker=worker, workers=0)


def _less(requests: Resources, names: Collection[str]) -> Resources:
    return Resources({name: amount for name, amount in requests.amounts.items() if name not in names})


def _rules(room: Room, ask: Ask) -> Iterator[str]:
    """Yield as constraints the taints that the members do not tolerate, then the labels that they require."""
    every = sorted(ask.constraints, key=repr)
    yield from sorted(
        {TAINT + taint.key for node in room.nodes.values() for rules in every for taint in untolerated(node, rules)}
    )
    selected = {key for rules in every for key, _ in rules.node_selector}
    needs = (need for rules in every for term in rules.terms for need in (*term.labels, *term.fields))
    yield from sorted(LABEL + key for key in selected.union(need.key for need in needs))


def _relaxed(rules: Constraints, lifted: Collection[str]) -> Constraints:
    """Return the placement rules with these taints tolerated and these labels no longer required."""
    tolerated = tuple(
        Toleration(name.removeprefix(TAINT), "Exists", "", "") for name in sorted(lifted) if name.startswith(TAINT)
    )
    terms = tuple(Term(_kept(term.labels, lifted), _kept(term.fields, lifted)) for term in rules.terms)
    return Constraints(
        node_selector=tuple((key, value) for key, value in rules.node_selector if LABEL + key not in lifted),
        # a term without requirements accepts every node
        terms=terms if all(term.labels or term.fields for term in terms) else (),
        tolerations=(*rules.tolerations, *tolerated),
    )


def _kept(needs: tuple[Requirement, ...], lifted: Collection[str]) -> tuple[Requirement, ...]:
    return tuple(need for need in needs if LABEL + need.key not in lifted)


def _told(room: Room, ask: Ask, name: str, what: str) -> str:
    """Return in words how the constraint ``name`` (a resource, taint or label) keeps the gang from being placed."""
    return _rule_in_words(room, ask, name) if name.startswith((TAINT, LABEL)) else _in_words(room, ask, name, what)


def _in_words(room: Room, ask: Ask, name: str, what: str) -> str:
    """Return in words how much of the resource the members ask for, and how much the nodes that accept them have.

    If members differ in the nodes that accept them, the text is about the first members for which there is too little.
    """
    alike = [_Alike.of(room, ask, name, rules) for rules in sorted(ask.constraints, key=repr)]
    told = (text for one in alike if (text := one.lack(what)))
    return next(told, None) or max(alike, key=lambda one: one.whole).pieces(what)


@dataclass(frozen=True, slots=True)
class _Alike:
    """The members with the same taints and affinity rules, and one resource: how much each asks for, and what nodes
    have free.
    """

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

    @property
    def members(self) -> int:
        return sum(1 for _, amount in self.asked if amount)

    def lack(self, what: str) -> str:
        """Return in words that no node has enough for one member, or that all nodes together have too little; empty
        otherwise.
        """
        if self.name.startswith(HOST_PORT):
            return self._lack_of_port()
        (role, largest), whole = max(self.asked, key=lambda one: one[1]), self.whole
        most, every = max((0, *self.free)), sum(max(0, free) for free in self.free)
        if largest > most:
            has = f"no node{self.such} has more than {said(self.name, most)}{what}"
            return f"a {role} asks for {said(self.name, largest)}, {has}"
        has = f"the nodes{self.such} have {said(self.name, every)}{what}"
        return f"members ask for {said(self.name, whole)} in all, {has}" if whole > every else ""

    @property
    def _asking(self) -> str:
        """The number of members that ask for the host port, with that port, as the subject and verb of a sentence."""
        ask = "asks" if self.members == 1 else "ask"
        return f"{counted(self.members, 'member')} {ask} for {said(self.name, 1)}"

    def _lack_of_port(self) -> str:
        members = self.members
        asked = self._asking
        if members > len(self.free):
            return f"{asked}, and a node has it once"
        nodes = sum(1 for free in self.free if free >= 0)
        return f"{asked}, {counted(nodes, 'node')}{self.such} {'has' if nodes == 1 else 'have'} it free" * (
            members > nodes
        )

    def pieces(self, what: str) -> str:
        """Return in words that the nodes have enough of the resource together, but in pieces that are too small."""
        if self.name.startswith(HOST_PORT):
            return f"{self._asking}, and a node has it once"
        have = f"{said(self.name, sum(max(0, free) for free in self.free))}{what}"
        asked = f"members ask for {said(self.name, self.whole)} in all"
        return f"{asked}, the nodes{self.such} have {have} in pieces that are too small"


def _rule_in_words(room: Room, ask: Ask, name: str) -> str:
    """Return in words which nodes would take a member if one taint or one label did not count.

    ``name`` is that constraint: ``TAINT`` and the key of a taint, or ``LABEL`` and the key of a label that the pods
    require.
    """
    asked = {rules: requests for _, requests, rules in ask.members()}
    told = []
    for at, node in sorted(room.nodes.items()):
        refusing = (
            requests.fits(room.free(at))
            for rules, requests in asked.items()
            if accepts(node, _relaxed(rules, {name})) and not accepts(node, rules)
        )
        if any(refusing):
            told.append(_refusal(node, name))
    return listed(told, MOST_NODES_NAMED) or f"no node that suits the {name} has enough room for a member"


def _refusal(node: Node, name: str) -> str:
    """Return in words that the node refuses a member because of the constraint ``name`` (as in `_rule_in_words`)."""
    if name.startswith(LABEL):
        return f"{node.name} does not match the gang's node selector or node affinity for {name.removeprefix(LABEL)}"
    taints = [taint for taint in node.taints if TAINT + taint.key == name]
    shown = ", ".join(f"{one.key}{f'={one.value}' if one.value else ''}:{one.effect}" for one in taints)
    return f"the taint {shown} of {node.name} is not tolerated"
