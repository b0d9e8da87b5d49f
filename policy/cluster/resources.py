"""Resource vectors in exact integers.

Units: ``cpu`` in millicores, ``memory`` and ``ephemeral-storage`` in bytes, everything else in whole pieces. Each pod
also asks for 1 of the resource ``pods``. A host port is the resource ``hostport/PROTOCOL/PORT``, and every node has 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

HOST_PORT = "hostport/"
GPU_SUFFIX = "/gpu"  # The names of GPU resources end with GPU_SUFFIX: nvidia.com/gpu, amd.com/gpu.
# BANDWIDTH is a resource in Mbit/s: nodes have as much as their network card, and members request a part of it.
BANDWIDTH = "kohort.dev/network-bandwidth"


def largest_share(part: Mapping[str, int], whole: Mapping[str, int]) -> float:
    """Return the largest quotient of an amount in ``part`` and the same resource's amount in ``whole``; 0.0 if none.

    Resources that are missing or 0 in ``whole`` do not count.
    """
    return max((amount / whole[name] for name, amount in part.items() if whole.get(name)), default=0.0)


class _Hashed:
    """A base class that stores the hash after its first use, because a vector's hash is needed many times."""

    __slots__ = ("_hash",)
    _hash: int


@dataclass(frozen=True, slots=True)
class Resources(_Hashed):
    """A resource vector: whole amounts by resource name.

    A missing name counts as 0. Amounts are negative where a node is charged with more than it has.
    """

    amounts: Mapping[str, int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> int:
        return self.amounts.get(name, 0)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.amounts))

    def __bool__(self) -> bool:
        return any(self.amounts.values())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Resources):
            return NotImplemented
        if self.amounts == other.amounts:
            return True
        if self.amounts.keys() == other.amounts.keys():
            return False
        names = self.amounts.keys() | other.amounts.keys()
        return all(self[name] == other[name] for name in names)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            found = hash(frozenset([part for part in self.amounts.items() if part[1]]))
            object.__setattr__(self, "_hash", found)
            return found

    def __add__(self, other: Resources) -> Resources:
        total = dict(self.amounts)
        for name, amount in other.amounts.items():
            total[name] = total.get(name, 0) + amount
        return Resources(total)

    def __sub__(self, other: Resources) -> Resources:
        rest = dict(self.amounts)
        for name, amount in other.amounts.items():
            rest[name] = rest.get(name, 0) - amount
        return Resources(rest)

    def times(self, count: int) -> Resources:
        """Return the vector with every amount multiplied by ``count``."""
        return Resources({name: amount * count for name, amount in self.amounts.items()})

    def fits(self, free: Resources) -> bool:
        """Tell whether a request of these amounts fits into ``free``; resources that are not requested are ignored."""
        available = free.amounts
        for name, amount in self.amounts.items():
            if 0 < amount > available.get(name, 0) and not (
                name.startswith(HOST_PORT) and amount <= 1 + available.get(name, 0)
            ):
                return False
        return True

    def fits_both(self, free: Resources, more: Resources) -> bool:
        """Tell whether a request of these amounts fits into ``free`` plus ``more``; faster than adding them first."""
        available, added = free.amounts, more.amounts
        for name, amount in self.amounts.items():
            room = available.get(name, 0) + added.get(name, 0)
            if 0 < amount > room and not (name.startswith(HOST_PORT) and amount <= 1 + room):
                return False
        return True

    def within(self, most: Resources) -> bool:
        """Tell whether no amount is above its bound in ``most``; a resource without a bound there has the bound 0."""
        bounds = most.amounts
        return all(amount <= bounds.get(name, 0) for name, amount in self.amounts.items())

    def or_more(self, other: Resources) -> Resources:
        """Return, for each resource, the larger of the two amounts."""
        return Resources({**self.amounts, **{n: max(self[n], amount) for n, amount in other.amounts.items()}})

    def how_many(self, free: Resources) -> int:
        """Return how many requests of these amounts fit into ``free`` together; 0 for a request of nothing."""
        available = free.amounts
        counts = [_available(available, name) // amount for name, amount in self.amounts.items() if amount > 0]
        return max(0, min(counts, default=0))

    def dominant_share(self, whole: Resources) -> float:
        """Return the dominant share (DRF): the largest share of ``whole`` over all resources but ``pods``."""
        shares = (amount / whole[name] for name, amount in self.amounts.items() if name != "pods" and whole[name] > 0)
        return max(shares, default=0.0)

    def shortfall(self, free: Resources) -> Resources:
        """Return the amounts that ``free`` lacks for a request of these amounts; only positive amounts."""
        missing = {name: amount - _available(free.amounts, name) for name, amount in self.amounts.items()}
        return Resources({name: amount for name, amount in missing.items() if amount > 0 and self[name] > 0})


NOTHING = Resources()


def _available(free: Mapping[str, int], name: str) -> int:
    if name.startswith(HOST_PORT):
        return 1 + free.get(name, 0)
    return free.get(name, 0)


def total(parts: Iterable[Resources]) -> Resources:
    """Return the sum of resource vectors."""
    amounts: dict[str, int] = {}
    for part in parts:
        for name, amount in part.amounts.items():
            amounts[name] = amounts.get(name, 0) + amount
    return Resources(amounts)
