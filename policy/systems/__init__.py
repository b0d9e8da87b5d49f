"""The table of scheduling systems and rebalancers by name, and the function that makes one from a name and
parameters.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from enum import Enum
from typing import Any

from policy.systems.backfill import FifoBackfill
from policy.systems.base import Policy
from policy.systems.baselines import Fifo, FifoPod, KubeflowSpread, LocalityOnly, RoundRobin
from policy.systems.dragon import Dragon
from policy.systems.drf import Drf
from policy.systems.drs import Drs
from policy.systems.guests import Guests
from policy.systems.kod2 import Kod2
from policy.systems.oasis import Oasis
from policy.systems.rebalanced import Rebalanced
from policy.systems.rrh import Rrh
from policy.systems.specon import SpeCon

SYSTEMS: dict[str, type[Any]] = {
    "kod2": Kod2,
    "drs": Drs,
    "dragon": Dragon,
    "fifo-pod": FifoPod,
    "kubeflow-spread": KubeflowSpread,
    "round-robin": RoundRobin,
    "locality-only": LocalityOnly,
    "fifo": Fifo,
    "fifo-backfill": FifoBackfill,
    "specon": SpeCon,
    "guests": Guests,
    "oasis": Oasis,
    "drf": Drf,
    "rrh": Rrh,
}
POD_BY_POD = frozenset({"fifo-pod"})
# A rebalancer may move the jobs of another system, as in ``kod2+specon``.
REBALANCERS: dict[str, type[Any]] = {"specon": SpeCon, "guests": Guests}
# WITH_UNIT maps the name of a parameter with its unit, as in the documentation, to the name without it, which some
# systems have. A user may write either name.
WITH_UNIT = {"starve_limit_seconds": "starve_limit", "cooldown_seconds": "cooldown"}


def make_policy(name: str, **parameters: object) -> Policy:
    """Return the scheduling system called ``name`` with these parameters, as plain values (an enum by its value).

    In a name ``BASE+REBALANCER`` the rebalancer moves jobs that the base's decision leaves alone. A parameter that
    begins with the rebalancer's name and a dot, such as ``specon.interval``, belongs to the rebalancer; all other
    parameters belong to the base. An unknown name or a wrong value raises a ValueError that names it.
    """
    base, plus, above = name.partition("+")
    own = {key: value for key, value in parameters.items() if plus and key.startswith(f"{above}.")}
    made = _make(base, {key: value for key, value in parameters.items() if key not in own})
    if not plus:
        return made
    allowed = sorted(REBALANCERS.keys() - {base})
    if above not in allowed:
        raise ValueError(f"{base}: {above!r} cannot move its jobs; allowed are {', '.join(allowed) or 'none'}")
    given = {key.removeprefix(f"{above}."): value for key, value in own.items()}
    return Rebalanced(made, built(above, REBALANCERS[above], given))


def _make(name: str, parameters: dict[str, object]) -> Policy:
    system = SYSTEMS.get(name)
    if system is None:
        raise ValueError(f"policy {name!r} is not known; known are {', '.join(sorted(SYSTEMS))}")
    made: Policy = built(name, system, parameters)
    return made


def built(name: str, system: type[Any], parameters: dict[str, object]) -> Any:
    """Return an instance of the class ``system`` (a system or rebalancer) with these parameters, as plain values.

    An unknown parameter or a wrong value raises a ValueError that names the parameter.
    """
    known = {field.name: field for field in fields(system)}
    told = {long: short for long, short in WITH_UNIT.items() if short in known}
    if twice := sorted(long for long, short in told.items() if {long, short} <= parameters.keys()):
        raise ValueError(f"{name}: {twice[0]} is given twice, also as {told[twice[0]]}")
    if unknown := sorted(parameters.keys() - known.keys() - told.keys()):
        names = sorted({*told, *known} - set(told.values()))
        raise ValueError(f"{name} has no parameter {unknown[0]!r}; it has {', '.join(names)}")
    given = {told.get(key, key): value for key, value in parameters.items()}
    return system(**{key: _plain(name, known[key], value) for key, value in given.items()})


def _plain(system: str, field: Field[object], value: object) -> object:
    """Return the value converted to the type of the field's default, such as an enum member or a float.

    A value that does not suit the type raises a ValueError.
    """
    like = type(field.default) if field.default is not MISSING else str
    try:
        if issubclass(like, Enum):
            return value if isinstance(value, like) else like(value)
        if like is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if type(value) is like:
            return value
    except ValueError:
        choices = ", ".join(str(member.value) for member in like) if issubclass(like, Enum) else ""
        raise ValueError(f"{system}: {field.name} is {value!r}, must be one of {choices}") from None
    raise ValueError(f"{system}: {field.name} is {value!r}, must be of type {like.__name__}")
