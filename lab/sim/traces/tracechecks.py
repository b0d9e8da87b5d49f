"""Checks of a whole trace: names are unique, and every gang fits on the empty cluster at its minimum."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lab.sim.objects import JobSpec
from lab.sim.traces.reading import FieldError, TraceError
from lab.sim.traces.trace import Trace
from policy.cluster.capacity import Capacity
from policy.cluster.job import WORKER, Role, Slot
from policy.cluster.node import Node
from policy.cluster.resources import NOTHING
from policy.placement.ask import Ask
from policy.placement.gang import fits
from policy.placement.room import Room

Placed = tuple[str, JobSpec]  # a job with the location of its row in the file


def checked(nodes: Sequence[Node], jobs: Iterable[Placed]) -> Trace:
    """Return the trace with jobs ordered by arrival; without nodes, no job is too large.

    Raises TraceError with every fault.
    """
    found = list(jobs)
    if not found:
        raise TraceError(["there is no job; allowed: one job or more"])
    faults = [*_repeated([(where, job.name) for where, job in found], "name", "job"), *_too_large(nodes, found)]
    if faults:
        raise TraceError(faults)
    return Trace(tuple(nodes), tuple(sorted((job for _, job in found), key=lambda job: (job.arrival, job.name))))


def checked_nodes(nodes: Iterable[tuple[str, Node]], column: str) -> tuple[Node, ...]:
    """Return the nodes; ``column`` is the column of their names, for the message. Raises TraceError for a repeated
    name.
    """
    found = list(nodes)
    if faults := _repeated([(where, node.name) for where, node in found], column, "node"):
        raise TraceError(faults)
    return tuple(node for _, node in found)


def _repeated(names: Iterable[tuple[str, str]], column: str, what: str) -> list[str]:
    """Return a message for each name that occurs again; ``names`` has (row's location, name)."""
    first: dict[str, str] = {}
    faults = []
    for where, name in names:
        if name in first:
            allowed = f"a name that no other {what} has ({first[name]} has it)"
            faults.append(str(FieldError(where, column, name, allowed)))
        else:
            first[name] = where
    return faults


def _too_large(nodes: Sequence[Node], jobs: Sequence[Placed]) -> list[str]:
    room = Room(Capacity.of({node.name: node for node in nodes}, {}))
    known: dict[tuple[int, tuple[Role, ...]], bool] = {}
    faults = []
    for where, job in jobs if nodes else ():
        shape = job.min_workers, job.roles
        if shape not in known:
            known[shape] = fits(room, _smallest(job))
        if not known[shape]:
            wanted = f"{job.min_workers} of {_smallest(job).text}"
            allowed = f"a gang that fits on the empty cluster of {len(nodes)} nodes"
            faults.append(str(FieldError(where, "min_workers", wanted, allowed)))
    return faults


def _smallest(job: JobSpec) -> Ask:
    """Return the placement request of the gang at its minimum."""
    rigid = [role for role in job.roles if role.name != WORKER]
    members = tuple((Slot(r.name, index), r.requests, r.constraints) for r in rigid for index in range(r.replicas))
    worker = job.role(WORKER)
    if worker is None:
        return Ask(members, NOTHING, rigid[0].constraints, 0)
    return Ask(members, worker.requests, worker.constraints, job.min_workers)
