"""A mapping whose copy costs what has changed lately, not what there is: the maps of a large snapshot."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, MutableMapping, ValuesView
from itertools import chain
from math import isqrt
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")

SMALL = 256  # a dict of so many entries is copied in less time than is lost by reading through a layer
GONE: Any = object()


def copied(old: Mapping[K, V]) -> MutableMapping[K, V]:
    """Return a copy to change.

    The old one may not be changed any more: a large one shares its entries with the copy.
    """
    if len(old) < SMALL:
        return old.copy() if isinstance(old, dict) else dict(old)  # dict() of one with gaps takes many times as long
    return old.branch() if isinstance(old, Layered) else Layered(dict(old))


class Layered(MutableMapping[K, V]):
    """A dict that nobody changes, and over it what has changed since; in the order that a dict would have.

    The layer is laid into a new dict when somebody looks at all entries, and when it has grown: with at most four times
    the square root of all entries in it, copying it and laying it in both cost about that, seen over many copies.
    """

    __slots__ = ("_layers", "_len")

    def __init__(self, base: dict[K, V], over: dict[K, V] | None = None) -> None:
        self._layers = base, {} if over is None else over  # read and replaced as one: other threads read snapshots
        self._len = len(base)

    def branch(self) -> Layered[K, V]:
        """Return a copy to change."""
        base, over = self._layers
        if len(over) > 4 * isqrt(len(base)):
            base, over = self._lay_in(), {}
        copy = Layered(base, over.copy())
        copy._len = self._len
        return copy

    def _lay_in(self) -> dict[K, V]:
        """Return the same entries in one dict, which the layers become."""
        base, over = self._layers
        if over:
            base = base.copy()
            for key, value in over.items():
                if value is GONE:
                    del base[key]
                else:
                    base[key] = value
            self._layers = base, {}
        return base

    def __getitem__(self, key: K) -> V:
        base, over = self._layers
        value = over[key] if key in over else base[key]
        if value is GONE:
            raise KeyError(key)
        return value

    def get(self, key: K, default: Any = None) -> Any:
        """Return the value, or the default where there is none."""
        base, over = self._layers
        value = over[key] if key in over else base.get(key, default)
        return default if value is GONE else value

    def __contains__(self, key: object) -> bool:
        base, over = self._layers
        return over[key] is not GONE if key in over else key in base

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self:
            self._len += 1
            if key in self._layers[1]:
                self._lay_in()  # deleted and back: its place is the last, as in a dict
        self._layers[1][key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._len -= 1
        base, over = self._layers
        if key in base:
            over[key] = GONE
        else:
            del over[key]

    def __len__(self) -> int:
        return self._len

    def __iter__(self) -> Iterator[K]:
        """Yield the keys in order; the layers stay, for whoever needs but the first few."""
        base, over = self._layers
        return chain((key for key in base if over.get(key) is not GONE), (key for key in over if key not in base))

    def keys(self) -> KeysView[K]:
        """Return all keys, in order."""
        return self._lay_in().keys()

    def values(self) -> ValuesView[V]:
        """Return all values, in the keys' order."""
        return self._lay_in().values()

    def items(self) -> ItemsView[K, V]:
        """Return all entries, in order."""
        return self._lay_in().items()

    def __repr__(self) -> str:
        return repr(self._lay_in())
