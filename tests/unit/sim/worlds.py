"""Helpers that build small simulated worlds and read from them what tests compare."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lab.sim.objects import JobObject, JobSpec, PodObject, WorldChange
from lab.sim.pods.world import SimulatedWorld
from lab.sim.pods.worldcore import WorldSettings
from lab.sim.traces import node, pod_requests
from policy.cluster.job import PS, WORKER, Role, Slot
from policy.cluster.pod import Phase

SMALL = pod_requests(1, 2)
AT_ONCE = WorldSettings(operator_rate=0.0, reconcile_seconds=0.0)


def spec(
    name: str = "a", *, ps: int = 1, workers: int = 3, least: int = 1, work: float = 600.0, **more: Any
) -> JobSpec:
    roles = (*((Role(PS, ps, SMALL),) if ps else ()), Role(WORKER, workers, SMALL))
    return JobSpec(name, roles, least, max(workers, 4), work, **more)


def world(nodes: int = 3, **settings: Any) -> SimulatedWorld:
    """Return a world at time 0 with nodes n1, n2 ... of 10 cores; its operator has no rate limit unless the settings
    say so.
    """
    made = SimulatedWorld(replace(AT_ONCE, **settings))
    for index in range(nodes):
        made.add_node(node(f"n{index + 1}", 10, 32))
    return made


def submitted(job: JobSpec, **settings: Any) -> SimulatedWorld:
    """Return a world in which the job's pods have been created but not bound."""
    made = world(**settings)
    assert made.submit(job) is None
    made.advance(made.now)
    return made


def running(job: JobSpec, on: str = "n1", **settings: Any) -> SimulatedWorld:
    """Return a world in which the whole job is bound on one node and has just started."""
    made = submitted(job, **settings)
    bind_all(made, on)
    made.advance(settings.get("start_seconds", AT_ONCE.start_seconds))
    return made


def bind_all(made: SimulatedWorld, on: str = "n1") -> None:
    for pod in list(made.store.pods.values()):
        if not pod.node:
            assert made.bind(pod.namespace, pod.name, on) is None


def job(made: SimulatedWorld, name: str = "a") -> JobObject:
    found = made.store.job_named("default", name)
    assert found is not None
    return found


def pod(made: SimulatedWorld, name: str = "a-worker-0") -> PodObject:
    found = made.store.pod_named("default", name)
    assert found is not None
    return found


def slots(made: SimulatedWorld, name: str = "a") -> dict[str, str]:
    """Return the state of the pod in each slot of the job: Pending, Running, Succeeded or going."""
    found = made.store.pods_of(job(made, name).uid)
    return {str(p.slot): _does(p) for p in sorted(found, key=lambda p: p.slot or Slot("", 0))}


def _does(found: PodObject) -> str:
    return "going" if found.deleted is not None else found.phase.value


def done(made: SimulatedWorld, name: str = "a") -> float:
    return made.progress(job(made, name).uid).at(made.now)


def words(changes: list[WorldChange] | None) -> list[str]:
    """Return the changes as texts such as ``ADDED Pod a-ps-0``."""
    return [f"{c.verb.value} {c.kind.value} {_name(c)}" for c in changes or []]


def _name(change: WorldChange) -> str:
    found = change.object
    return found.spec.name if isinstance(found, JobObject) else found.name


PENDING, RUNNING, SUCCEEDED = Phase.PENDING.value, Phase.RUNNING.value, Phase.SUCCEEDED.value
