"""Which constraints keep a gang from being placed: holders of room, closed nodes, taints, labels, or amounts.

To lift a constraint is to assume, on a working copy of the room or of the gang's request, that it does not exist. The
binding constraints are a set with two properties: the gang can be placed once all of them are lifted, and it cannot be
placed while any one of them is left.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from policy.cluster.constraints import Constraints, Requirement, Term, Toleration
from policy.cluster.frozen import replace
from policy.cluster.job import WORKER, Slot
from policy.cluster.node import Node
from policy.cluster.resources import HOST_PORT, Resources
from policy.cluster.words import counted, listed, said
from policy.placement.ask import Ask
from policy.placement.fit import accepts, untolerated
from policy.placement.gang import fits
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
"""A constraint ``LABEL`` with a key stands for every entry of the node selector and the required node affinity with
that key; the key may also be the field metadata.name.
"""
NODE_TAINTS: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""The prefixes of the taints that Kubernetes itself sets on a node for as long as something is wrong with it, such as
``node.kubernetes.io/disk-pressure``.
"""
MOST_NODES_NAMED: Final = 3
T = TypeVar("T")
# A RoomWithout function returns the room as if the given constraints (of HOLDERS and CLOSED) did not exist. Its callers
# must not change the room.
RoomWithout = Callable[[frozenset[str]], Room]


def needed_of(items: Sequence[T], enough: Callable[[Sequence[T]], bool], most: int | None = None) -> tuple[T, ...]:
    """Return a selection of the items that is enough, and is no longer enough without any one of its items.

    The result is empty if even all items are not enough. ``enough`` tells whether a selection is enough; it must stay
    true if items are added, and is called about log2(n) times for each item of the result. Items at the front are
    preferred. The search ends when ``most`` items are found, even if they are not enough.
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

    kind: one of ``HOLDERS`` (who holds the room), or ``CLOSED``, ``REFUSED`` or ``SHAPE``. text: the blocker in words.
    values: the names of the resources, pods, jobs or nodes in the text.
    """

    kind: str
    values: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Binding:
    """The constraints that keep a gang from being placed.

    ask: the gang's request. names: the constraints without which the gang could be placed; empty if it could not be
    placed even without any constraint. instead: if ``names`` is one constraint of kind ``SHAPE``, the other constraints
    of that kind without any one of which, instead, the gang could also be placed. without: returns the room as if given
    constraints did not exist.
    """

    ask: Ask
    names: tuple[str, ...]
    instead: tuple[str, ...]
    without: RoomWithout

    def shape(self, what: str = "") -> Iterator[Blocker]:
        """Yield a blocker with the gang's requested amounts and placement rules that keep it from being placed.

        ``what`` is a word that the text puts after the amounts that nodes have, for example " free".
        """
        lifted = frozenset(self.names)
        if names := [name for name in (*self.names, *self.instead) if is_shape(name)]:
            room = self.without(lifted)
            told = (_told(room, lift(self.ask, () if self.instead else lifted - {name}), name, what) for name in names)
            yield Blocker(SHAPE, tuple(names), ("; or " if self.instead else "; and ").join(told))
        if not self.names:
            yield Blocker(SHAPE, (), "there is no node that takes pods")

    def lacking(self, what: str) -> Iterator[Blocker]:
        """Yield a blocker with the resources of which the holders of room among ``names`` leave too little.

        ``what`` has the same meaning as in ``shape``.
        """
        lifted = frozenset(self.names)
        if not lifted.isdisjoint(HOLDERS):
            held = self.without(lifted.difference(HOLDERS))
            beside = binding(lambda _: held, lift(self.ask, lifted), ())
            yield from beside.shape(what) if beside is not None else ()


def binding(without: RoomWithout, ask: Ask, states: Sequence[str]) -> Binding | None:
    """Return the constraints that keep the gang with the request ``ask`` from fitting; None if it fits.

    ``without`` returns the room as if given constraints did not exist. ``states`` has those of ``HOLDERS``, ``REFUSED``
    and ``CLOSED`` that are tried; the result has a later one only if the earlier ones are not enough. The result has
    resources, taints and labels only if all states together are not enough, and of these first the taints that
    Kubernetes itself sets on nodes.
    """

    def enough(lifted: Sequence[str]) -> bool:
        return fits(without(frozenset(lifted)), lift(ask, lifted))

    if enough(()):
        return None
    rules = tuple(_rules(without(frozenset(states)), ask))
    closing = tuple(rule for rule in rules if closes_nodes(rule))
    shape = (*sorted(ask.whole), *(rule for rule in rules if rule not in closing))
    names = needed_of((*states, *closing, *shape), enough)
    alone = len(names) == 1 and names[0] in shape
    instead = tuple(name for name in shape if name != names[0] and enough((name,))) if alone else ()
    return Binding(ask, names, instead, without)


def is_shape(name: str) -> bool:
    """Tell whether the constraint is a resource, taint or label in the gang's own requests and rules (``SHAPE``)."""
    return name not in HOLDERS and name not in (REFUSED, CLOSED)


def closes_nodes(name: str) -> bool:
    """Tell whether the constraint is that nodes take no new pods now: ``CLOSED``, or a taint that Kubernetes sets."""
    return name == CLOSED or (name.startswith(TAINT) and name.removeprefix(TAINT).startswith(NODE_TAINTS))


def lift(ask: Ask, lifted: Collection[str]) -> Ask:
    """Return the gang's request without these constraints; only those of kind ``SHAPE`` and ``REFUSED`` change it."""
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
    # One worker is placed for all workers, because workers that ask for nothing fit on any node that accepts them.
    one = (Slot(WORKER, 0), worker, ask.worker_constraints)
    return replace(ask, rigid=(*rigid, one), worker=worker, workers=0)


def _less(requests: Resources, names: Collection[str]) -> Resources:
    return Resources({name: amount for name, amount in requests.amounts.items() if name not in names})


def _rules(room: Room, ask: Ask) -> Iterator[str]:
    """Yield the names of constraints: taints that the members do not tolerate, then labels that they require."""
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
        # A term from which all requirements were lifted accepts every node, so that the other terms no longer matter.
        terms=terms if all(term.labels or term.fields for term in terms) else (),
        tolerations=(*rules.tolerations, *tolerated),
    )


def _kept(needs: tuple[Requirement, ...], lifted: Collection[str]) -> tuple[Requirement, ...]:
    return tuple(need for need in needs if LABEL + need.key not in lifted)


def _told(room: Room, ask: Ask, name: str, what: str) -> str:
    """Return in words how the constraint ``name`` (a resource, taint or label) keeps the gang from being placed."""
    return _rule_in_words(room, ask, name) if name.startswith((TAINT, LABEL)) else _in_words(room, ask, name, what)


def _in_words(room: Room, ask: Ask, name: str, what: str) -> str:
    """Return in words how much of the resource ``name`` the members ask for, and how much the nodes have for them.

    Only nodes count that accept the members. If members differ in these nodes, the text is about the first members for
    which there is too little.
    """
    alike = [_Alike.of(room, ask, name, rules) for rules in sorted(ask.constraints, key=repr)]
    told = (text for one in alike if (text := one.lack(what)))
    return next(told, None) or max(alike, key=lambda one: one.whole).pieces(what)


@dataclass(frozen=True, slots=True)
class _Alike:
    """The members of a gang with the same placement rules, and one resource.

    name: the resource. asked: each member's role, and the amount that it asks for. free: the amounts that are free on
    the nodes that accept these members. such: the words that restrict "node" in a text to these nodes; empty if all
    nodes accept the members.
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
        """Return in words that no node has enough for the largest member, or that all nodes together have too little.

        The result is empty if neither is so. ``what`` is put after the amounts that nodes have.
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
        """Return in words that the nodes together have enough, but in pieces that are too small for the members."""
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
