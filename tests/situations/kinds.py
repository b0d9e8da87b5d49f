"""The kinds of constraints: each function adds one constraint to the members and nodes of one pool of a scene.

Without any other constraint, the gang starts when this constraint is lifted, and lifting it makes no other constraint
worse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Final

from policy.cluster.constraints import Requirement, Taint
from policy.cluster.reasons import Reason
from policy.cluster.resources import HOST_PORT
from policy.cluster.words import said
from policy.placement.binding import CLOSED, HELD, JOBS, LABEL, LEAVING, OTHERS, REFUSED, TAINT
from tests.situations.scene import GIB, Change, Constraint, Holder, Host, Runs, Scene

NAMESPACE: Final = "team"
Kind = Callable[[Scene, str, str, Random], Scene]
"""Add a constraint to a scene: the pool, the resource that it is about (some kinds ignore it), the source of chance."""
MOST_MEMBERS: Final = 8
PORTS: Final = (8080, 2222, 9100, 5000)
STEPS: Final[Mapping[str, int]] = {
    "cpu": 1000, "memory": GIB, "ephemeral-storage": 10 * GIB, "nvidia.com/gpu": 1, "example.com/npu": 1,
    "hugepages-2Mi": GIB, "pods": 1,
}  # fmt: skip
RESOURCES: Final = tuple(name for name in STEPS if name != "pods")


def _with(scene: Scene, kind: str, code: Reason, values: tuple[str, ...], *lift: Change) -> Scene:
    return replace(scene, constraints=(*scene.constraints, Constraint(kind, code.value, values, lift)))


def _asking(scene: Scene, pool: str, resource: str, rng: Random) -> tuple[Scene, int]:
    """Make each member of the pool request the resource; return the changed scene, and the amount that a member
    requests.
    """
    group = scene.group(pool)
    asked = STEPS[resource] * rng.randint(2, 4)
    if resource == "pods":
        return scene, 1
    asked = group.asks.get(resource, 0) or asked
    return scene.with_group(replace(group, asks={**group.asks, resource: asked})), asked


# -- The kinds below ask for more than the nodes have. -----------------------------------------------


def too_little(scene: Scene, pool: str, resource: str, rng: Random) -> Scene:
    """Add this constraint: every node of the pool has less of the resource than one member requests."""
    scene, asked = _asking(scene, pool, resource, rng)
    hosts = scene.of(pool)
    has = STEPS[resource] * rng.randint(0, asked // STEPS[resource] - 1)
    short = [replace(host, has={**host.has, resource: has}) for host in hosts]
    lift = [Change("raise", host.name, amounts={resource: asked * MOST_MEMBERS}) for host in hosts]
    values = (said(resource, asked), said(resource, has))
    return _with(scene.with_hosts(*short), resource, Reason.TOO_LARGE, values, *lift)


def too_few(scene: Scene, pool: str, resource: str, rng: Random) -> Scene:
    """Add this constraint: each node of the pool has room for a member, but all nodes together have too little for all
    members.
    """
    scene, asked = _asking(scene, pool, resource, rng)
    hosts, group = scene.of(pool), scene.group(pool)
    group = replace(group, count=len(hosts) + rng.randint(1, 3))
    has = {resource: asked + rng.randint(0, max(0, asked // STEPS[resource] - 1)) * STEPS[resource]}
    short = [replace(host, has={**host.has, **has}) for host in hosts]
    lift = [Change("raise", host.name, amounts={resource: asked * MOST_MEMBERS}) for host in hosts]
    values = (said(resource, asked * group.count), said(resource, has[resource] * len(hosts)))
    return _with(scene.with_hosts(*short).with_group(group), resource, Reason.TOO_LARGE, values, *lift)


def too_few_pods(scene: Scene, pool: str, _: str, rng: Random) -> Scene:
    """Add this constraint: the nodes of the pool take fewer pods than the gang has members there."""
    return too_few(scene, pool, "pods", rng)


def one_port(scene: Scene, pool: str, _: str, rng: Random) -> Scene:
    """Add this constraint: all members request the same host port, and there are more members than nodes."""
    hosts, group = scene.of(pool), scene.group(pool)
    port = f"{HOST_PORT}TCP/{rng.choice(PORTS)}"
    group = replace(group, count=len(hosts) + rng.randint(1, 2), asks={**group.asks, port: 1})
    more = [Host(f"{pool}-more-{n}", pool) for n in range(group.count - len(hosts))]
    lift = [Change("add", host.name, host=host) for host in more]
    values = (said(port, 1), f"{group.count} members")
    return _with(scene.with_group(group), port, Reason.TOO_LARGE, values, *lift)


# -- In the kinds below, pods or jobs hold the room that the gang needs. -----------------------------


def _held(scene: Scene, pool: str, resource: str, rng: Random) -> tuple[Scene, int]:
    """Make each member of the pool request all of the resource that a node has; return the changed scene, and that
    amount.
    """
    scene, _ = _asking(scene, pool, resource, rng)
    group, has = scene.group(pool), scene.of(pool)[0].has[resource]
    fewer = replace(group, count=len(scene.of(pool)), asks={**group.asks, resource: has})
    return scene.with_group(fewer), has


def _part(has: int, resource: str, rng: Random) -> int:
    return STEPS[resource] * rng.randint(1, has // STEPS[resource])


def other_pods(scene: Scene, pool: str, resource: str, rng: Random) -> Scene:
    """Add this constraint: a pod of another scheduler holds a part of each node of the pool."""
    return _with_holders(scene, pool, resource, rng, OTHERS, Reason.ROOM_OF_OTHERS)


def terminating_pods(scene: Scene, pool: str, resource: str, rng: Random) -> Scene:
    """Add this constraint: a terminating pod that a finalizer keeps holds a part of each node of the pool."""
    return _with_holders(scene, pool, resource, rng, LEAVING, Reason.ROOM_OF_OTHERS)


def nominated_pods(scene: Scene, pool: str, resource: str, rng: Random) -> Scene:
    """Add this constraint: another scheduler keeps a part of each node of the pool for a pod that it has nominated."""
    return _with_holders(scene, pool, resource, rng, OTHERS, Reason.ROOM_OF_OTHERS, nominated=True)


def _with_holders(
    scene: Scene, pool: str, resource: str, rng: Random, kind: str, code: Reason, *, nominated: bool = False
) -> Scene:
    scene, has = _held(scene, pool, resource, rng)
    finalizer = f"example.com/{rng.choice(('backup', 'audit', 'volume'))}" if kind == LEAVING else ""
    held = [
        Holder(f"{scene.name}-{host.name}-{kind.split(maxsplit=1)[0]}{'-n' * nominated}", host.name,
               {resource: _part(has, resource, rng)}, finalizer, nominated)
        for host in scene.of(pool)
    ]  # fmt: skip
    values = tuple(f"{NAMESPACE}/{one.name}" for one in held[:3]) + ((finalizer,) if finalizer else ())
    lift = [Change("gone", one.name) for one in held]
    return _with(replace(scene, holders=(*scene.holders, *held)), kind, code, (*values, said(resource, has)), *lift)


def running_jobs(scene: Scene, pool: str, resource: str, rng: Random) -> Scene:
    """Add this constraint: a running job of Kohort's holds a part of each node of the pool."""
    return _with_jobs(scene, pool, resource, rng, finished=False)


def finished_jobs(scene: Scene, pool: str, resource: str, rng: Random) -> Scene:
    """Add this constraint: the pod of a finished job, which the job keeps, holds a part of each node of the pool."""
    return _with_jobs(scene, pool, resource, rng, finished=True)


def _with_jobs(scene: Scene, pool: str, resource: str, rng: Random, *, finished: bool) -> Scene:
    scene, has = _held(scene, pool, resource, rng)
    held = [
        Runs(f"{scene.name}-{host.name}-{'done' if finished else 'busy'}", host.name,
             {resource: _part(has, resource, rng)}, finished)
        for host in scene.of(pool)
    ]  # fmt: skip
    names = tuple(f"{NAMESPACE}/{one.name}" for one in held[:3]) if finished else ()
    kind, code = (HELD, Reason.ROOM_HELD) if finished else (JOBS, Reason.NO_ROOM)
    lift = [Change("delete" if finished else "end", one.name) for one in held]
    return _with(replace(scene, running=(*scene.running, *held)), kind, code, (*names, said(resource, has)), *lift)


# -- In the kinds below, the gang may not use a node. ------------------------------------------------


def cordoned(scene: Scene, pool: str, _: str, rng: Random) -> Scene:
    """Add this constraint: every node of the pool that the gang needs is cordoned."""
    return _closed(scene, pool, "cordoned", rng)


def not_ready(scene: Scene, pool: str, _: str, rng: Random) -> Scene:
    """Add this constraint: every node of the pool that the gang needs is not ready."""
    return _closed(scene, pool, "not ready", rng)


def _closed(scene: Scene, pool: str, how: str, rng: Random) -> Scene:
    del rng
    hosts = scene.of(pool)
    shut = [replace(host, cordoned=True) if how == "cordoned" else replace(host, ready=False) for host in hosts]
    lift = [Change("uncordon" if how == "cordoned" else "ready", host.name) for host in hosts]
    values = (hosts[0].name, how) if len(hosts) == 1 else (how,)
    return _with(scene.with_hosts(*shut), CLOSED, Reason.NODES_CLOSED, values, *lift)


def tainted(scene: Scene, pool: str, _: str, rng: Random) -> Scene:
    """Add this constraint: every node of the pool has a taint that the gang does not tolerate."""
    taint = Taint(f"example.com/{rng.choice(('team', 'spot'))}", rng.choice(("a", "")), "NoSchedule")
    hosts = [replace(host, taints=(*host.taints, taint)) for host in scene.of(pool)]
    lift = [Change("untaint", host.name, labels={taint.key: taint.value}) for host in hosts]
    return _with(scene.with_hosts(*hosts), TAINT + taint.key, Reason.TOO_LARGE, (taint.key, hosts[0].name), *lift)


def unlabelled(scene: Scene, pool: str, _: str, rng: Random) -> Scene:
    """Add this constraint: no node of the pool has the label that the members' node affinity asks for."""
    key = rng.choice(("example.com/zone", "example.com/disk"))
    need = rng.choice(
        (Requirement(key, "In", ("a", "b")), Requirement(key, "Exists", ()), Requirement(key, "Gt", ("4",)))
    )
    group, hosts = scene.group(pool), scene.of(pool)
    label = {key: "5" if need.operator == "Gt" else "a"}
    lift = [Change("label", host.name, labels=label) for host in hosts]
    scene = scene.with_group(replace(group, wants=(*group.wants, need)))
    return _with(scene, LABEL + key, Reason.TOO_LARGE, (hosts[0].name, key), *lift)


def refused(scene: Scene, pool: str, _: str, rng: Random) -> Scene:
    """Add this constraint: kube-scheduler's plugins have refused every node of the pool for the gang."""
    del rng
    names = tuple(host.name for host in scene.of(pool))
    made = replace(scene, refused=(*scene.refused, *names))
    return _with(made, REFUSED, Reason.NODE_NOT_OFFERED, names[:1], Change("forget"))


# -- In the kinds below, the job itself keeps the gang from starting. --------------------------------


def suspended(scene: Scene, pool: str, _: str, rng: Random) -> Scene:
    """Add this constraint: the job's user has suspended the job."""
    del pool, rng
    return _with(replace(scene, suspended=True), "", Reason.SUSPENDED, (), Change("resume"))


def no_pods(scene: Scene, pool: str, _: str, rng: Random) -> Scene:
    """Add this constraint: the last member has no pod yet, as when a quota refuses the pod."""
    del rng
    worker = next(group for group in scene.groups if group.role == "worker")
    del pool
    values = (f"worker {worker.count - 1} of {worker.count}",)
    return _with(replace(scene, absent=1), "", Reason.WAITING_FOR_PODS, values, Change("create"))


def job_ahead(scene: Scene, pool: str, _: str, rng: Random) -> Scene:
    """Add this constraint: another job has waited so long that no job may start before it, and the node that it needs
    is in use.
    """
    del pool
    host = Host(f"{scene.name}-q", f"{scene.name}-q")
    asks = {"cpu": STEPS["cpu"] * rng.randint(17, 32)}
    busy, ahead = Runs(f"{scene.name}-busy", host.name, asks), Runs(f"{scene.name}-ahead", host.name, asks)
    made = replace(scene, hosts=(*scene.hosts, host), running=(*scene.running, busy), ahead=ahead)
    return _with(made, "", Reason.BEHIND, (f"{NAMESPACE}/{ahead.name}",), Change("end", busy.name))


ALONE: Final[Mapping[str, Kind]] = {
    "too little": too_little, "too few": too_few, "too few pods": too_few_pods, "one port": one_port,
    "other pods": other_pods, "terminating pods": terminating_pods, "nominated pods": nominated_pods,
    "running jobs": running_jobs, "finished jobs": finished_jobs, "cordoned": cordoned, "not ready": not_ready,
    "tainted": tainted, "unlabelled": unlabelled, "refused": refused, "suspended": suspended, "no pods": no_pods,
    "job ahead": job_ahead,
}  # fmt: skip
NOT_OF_ROOM: Final = frozenset({"suspended", "no pods", "job ahead"})
