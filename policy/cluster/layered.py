"""A mapping for large snapshots that is cheap to copy: a copy takes time for recent changes, not for all entries."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, MutableMapping, ValuesView
from itertools import chain
from math import isqrt
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")

# A mapping with fewer than SMALL entries is a plain dict: copying a small dict is cheaper than reading two layers.
SMALL = 256
GONE: Any = object()


def copied(old: Mapping[K, V]) -> MutableMapping[K, V]:
    """Return a copy that may be changed.

    From then on the original must not be changed, because a large mapping shares its entries with the copy.
    """
    if len(old) < SMALL:
        # A dict's copy() is used, because dict(old) is far slower once entries have been deleted.
        return old.copy() if isinstance(old, dict) else dict(old)
    return old.branch() if isinstance(old, Layered) else Layered(dict(old))


class Layered(MutableMapping[K, V]):
    """A mapping in two layers: a base dict that is never changed, and a small dict of the changes since.

    The entries have the same order as in a dict with the same changes. Both layers are merged into a new base dict when
    all entries are read, or when a copy is made and the small dict is longer than four times the square root of the
    length of the base. With this limit a copy costs, on average, time in proportion to that square root.
    """

    __slots__ = ("_layers", "_len")

    def __init__(self, base: dict[K, V], over: dict[K, V] | None = None) -> None:
        # Both layers are kept in one attribute and replaced by one assignment, because other threads read them.
        self._layers = base, {} if over is None else over
        self._len = len(base)

    def branch(self) -> Layered[K, V]:
        """Return a copy that may be changed; both share the base dict, which is never changed."""
        base, over = self._layers
        if len(over) > 4 * isqrt(len(base)):
            base, over = self._lay_in(), {}
        copy = Layered(base, over.copy())
        copy._len = self._len
        return copy

    def _lay_in(self) -> dict[K, V]:
        """Merge the layers into one new base dict, and return it."""
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
        """Return the value of the key, or ``default`` if the mapping does not have it."""
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
                # The layers are merged, because a key that is set after its deletion must come last, as in a dict.
                self._lay_in()
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
        """Yield the keys in order, without merging the layers: a caller may need only the first few keys."""
        base, over = self._layers
        return chain((key for key in base if over.get(key) is not GONE), (key for key in over if key not in base))

    def keys(self) -> KeysView[K]:
        """Return all keys, in order, after merging the layers."""
        return self._lay_in().keys()

    def values(self) -> ValuesView[V]:
        """Return all values, in the order of the keys, after merging the layers."""
        return self._lay_in().values()

    def items(self) -> ItemsView[K, V]:
        """Return all entries, in the order of the keys, after merging the layers."""
        return self._lay_in().items()

    def __repr__(self) -> str:
        return repr(self._lay_in())
