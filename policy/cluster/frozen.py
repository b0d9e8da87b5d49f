"""Fast construction of frozen dataclasses, because every step makes dozens of them.

The standard ``__init__`` of a frozen dataclass sets each field by a call, and ``dataclasses.replace`` reads the
settings of each field at every call. For a gang of 28 fields they take 5 and 14 microseconds; ours take 1 and 4.
"""

from __future__ import annotations

import dataclasses
from copy import copy
from functools import cache, wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

C = TypeVar("C", bound=type)


def quick(cls: C) -> C:
    """Make a frozen dataclass with slots and without bases fast to construct.

    While ``__init__`` sets the fields, the instance has a class that is not frozen; then it gets its own class back.
    """
    fields = [(field.name, field.type, copy(field)) for field in dataclasses.fields(cls)]
    opened = dataclasses.make_dataclass(cls.__name__, fields, slots=True, repr=False, eq=False)
    closed: Any = cls
    let, fill, then = object.__setattr__, vars(opened)["__init__"], getattr(cls, "__post_init__", None)

    @wraps(closed.__init__)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        let(self, "__class__", opened)
        fill(self, *args, **kwargs)
        self.__class__ = closed
        if then is not None:
            then(self)

    closed.__init__ = init
    return cls


@cache
def _shape(cls: type) -> tuple[attrgetter[Any], dict[str, int]]:
    names = [field.name for field in dataclasses.fields(cls)]
    return attrgetter("__class__", *names), {name: at for at, name in enumerate(names)}


if TYPE_CHECKING:
    from dataclasses import replace as replace  # noqa: PLC0414 - type checkers know the fields of this one
else:

    def replace(old, /, **changes):
        """Return a copy of ``old`` with these fields changed. Raises KeyError for a field that it does not have."""
        ask, places = _shape(old.__class__)
        made, *values = ask(old)
        for name, value in changes.items():
            values[places[name]] = value
        return made(*values)
