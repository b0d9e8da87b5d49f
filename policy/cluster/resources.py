"""Resource vectors in exact integers.

Units: ``cpu`` in millicores, ``memory`` and ``ephemeral-storage`` in bytes, everything else in whole pieces; one
pod also asks for one ``pods``. A host port is the resource ``hostport/PROTOCOL/PORT`` of which every node has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

HOST_PORT = "hostport/"
GPU_SUFFIX = "/gpu"  # of an extended resource: nvidia.com/gpu, amd.com/gpu
BANDWIDTH = "kohort.dev/network-bandwidth"  # Mbit/s of a node's network card, and of what a member reserves of it


def largest_share(part: Mapping[str, int], whole: Mapping[str, int]) -> float:
    """Return the largest of the shares that ``part`` is of ``whole``, over the resources of which ``whole`` has any."""
    return max((amount / whole[name] for name, amount in part.items() if whole.get(name)), default=0.0)


class _Hashed:
    """Room for the hash, which is asked for far more often than a vector is made."""

    __slots__ = ("_hash",)
    _hash: int


@dataclass(frozen=True, slots=True)
class Resources(_Hashed):
    """Amounts by resource name; a missing name counts as zero. Amounts may be negative (an over-charged node)."""

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
        """Return the sum of ``count`` equal vectors."""
        return Resources({name: amount * count for name, amount in self.amounts.items()})

    def fits(self, free: Resources) -> bool:
        """Tell whether a request of these amounts goes into ``free``; what is not asked for is not compared."""
        available = free.amounts
        for name, amount in self.amounts.items():
            if 0 < amount > available.get(name, 0) and not (
                name.startswith(HOST_PORT) and amount <= 1 + available.get(name, 0)
            ):
                return False
        return True

    def fits_both(self, free: Resources, more: Resources) -> bool:
        """Tell whether it goes into both of them together, without making their sum."""
        available, added = free.amounts, more.amounts
        for name, amount in self.amounts.items():
            room = available.get(name, 0) + added.get(name, 0)
            if 0 < amount > room and not (name.startswith(HOST_PORT) and amount <= 1 + room):
                return False
        return True

    def within(self, most: Resources) -> bool:
        """Tell whether no amount is above its bound; a missing bound is 0."""
        bounds = most.amounts
        return all(amount <= bounds.get(name, 0) for name, amount in self.amounts.items())

    def or_more(self, other: Resources) -> Resources:
        """Return the larger of both, resource by resource."""
        return Resources({**self.amounts, **{n: max(self[n], amount) for n, amount in other.amounts.items()}})

    def how_many(self, free: Resources) -> int:
        """Return how many requests of these amounts go into ``free``; a request of nothing goes in 0 times."""
        available = free.amounts
        counts = [_available(available, name) // amount for name, amount in self.amounts.items() if amount > 0]
        return max(0, min(counts, default=0))

    def dominant_share(self, whole: Resources) -> float:
        """Return the largest share of ``whole`` that one of its resources takes (DRF); numbers of pods do not count."""
        shares = (amount / whole[name] for name, amount in self.amounts.items() if name != "pods" and whole[name] > 0)
        return max(shares, default=0.0)

    def shortfall(self, free: Resources) -> Resources:
        """Return what is missing in ``free`` for a request of these amounts: only positive amounts."""
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
