"""Draw situations by seed: a gang waits because of one constraint (150 situations) or two (50). Of all these, 40 are
for the real control plane.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, cycle, islice
from random import Random
from typing import Final

from tests.situations.kinds import ALONE, NOT_OF_ROOM, RESOURCES
from tests.situations.scene import GIB, Group, Host, Scene

SINGLES: Final = 150
PAIRS: Final = 50
SIZED: Final = frozenset({"too few", "too few pods", "one port"})
"""Kinds that set the number of members so that it exceeds what the nodes take."""
WHOLE_NODES: Final = frozenset({"other pods", "terminating pods", "nominated pods", "running jobs", "finished jobs"})
"""Kinds that set the number of members to that of the nodes."""
ONCE: Final = frozenset({"refused"})
"""Kinds that need a plan, which the gang never gets while another constraint binds."""


def singles() -> Iterator[Scene]:
    """Yield the situations with one constraint, each kind in turn."""
    for seed, kind in zip(range(SINGLES), cycle(ALONE), strict=False):
        yield _single(seed, kind)


def pairs() -> Iterator[Scene]:
    """Yield the situations with two constraints, each with another pair of kinds."""
    every = [pair for pair in combinations(ALONE, 2) if ONCE.isdisjoint(pair)]
    Random(7).shuffle(every)
    for seed, kinds in enumerate(islice(every, PAIRS)):
        yield _pair(seed, *kinds)


def live(scenes: Iterable[Scene], count: int) -> list[Scene]:
    """Return ``count`` of the scenes that the real control plane can play, spread evenly over all; the others are
    played in virtual time.
    """
    able = [scene for scene in scenes if _is_able(scene)]
    return able[:: len(able) // count][:count]


def _is_able(scene: Scene) -> bool:
    """Tell whether a real control plane can play the scene.

    It cannot keep a node unready (KWOK makes nodes ready) or a pod nominated, let kube-scheduler refuse given nodes, or
    let a job wait for long.
    """
    ready = all(host.ready for host in scene.hosts)
    nominated = any(holder.nominated for holder in scene.holders)
    return ready and not nominated and not scene.refused and scene.ahead is None


def _base(name: str, rng: Random, pools: int) -> Scene:
    """Return a scene without constraints, in which the gang would start.

    It has one group of members for each pool, and nodes with plenty of every resource.
    """
    roles = ("worker", "ps")[:pools]
    names = [f"{name}-{letter}" for letter in "ab"[:pools]]
    groups = tuple(
        Group(role, rng.randint(1, 4), pool, {"cpu": 1000 * rng.randint(1, 2), "memory": GIB * rng.randint(1, 4)})
        for role, pool in zip(roles, names, strict=True)
    )
    hosts = [Host(f"{pool}-{n}", pool) for pool in names for n in range(rng.randint(1, 3))]
    hosts += [Host(f"{name}-z-{n}", f"{name}-z") for n in range(rng.randint(0, 2))]
    return Scene(name, tuple(hosts), groups)


def _single(seed: int, kind: str) -> Scene:
    rng = Random(f"single {seed}")
    scene = _base(f"s{seed}", rng, rng.choice((1, 1, 2)))
    pool = rng.choice(scene.groups).pool
    return ALONE[kind](scene, pool, rng.choice(RESOURCES), rng)


def _pair(seed: int, one: str, other: str) -> Scene:
    rng = Random(f"pair {seed}")
    apart = _clash(one, other) or rng.random() < 0.5
    scene = _base(f"p{seed}", rng, 2 if apart else 1)
    pools = [group.pool for group in scene.groups]
    resources = rng.sample(RESOURCES, 2)
    both = sorted(zip((one, other), resources, strict=True), key=lambda kind: kind[0] in NOT_OF_ROOM)
    for at, (kind, resource) in enumerate(both):
        scene = ALONE[kind](scene, pools[at % len(pools)], resource, rng)
    return scene


def _clash(one: str, other: str) -> bool:
    """Tell whether the two kinds of constraints cannot be in one pool.

    Either both set the number of members of their pool, or one adds nodes, which lack a label that the other demands.
    """
    if {one, other} == {"one port", "unlabelled"}:
        return True
    return (one in SIZED and other in SIZED | WHOLE_NODES) or (other in SIZED and one in WHOLE_NODES)
