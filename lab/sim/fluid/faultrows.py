"""Read faults of a simulated cluster from rows: seconds after the start, the fault, and the node, job or pod."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from lab.sim.fluid.faults import Fault, JobDeleted, NodeBack, NodeCordoned, NodeLost, PodEvicted
from lab.sim.objects import JobSpec
from lab.sim.traces.reading import FieldError, Table, TraceRow, read
from lab.sim.traces.trace import Trace
from policy.cluster.job import WORKER, Slot

WHEN, WHAT, NODE, JOB, ROLE, INDEX = "seconds", "what", "node", "job", "role", "index"
COLUMNS = (WHEN, WHAT, NODE, JOB, ROLE, INDEX)
SHOWN = 10  # An error message lists at most this many names, because a cluster may have thousands.


@dataclass(frozen=True, slots=True)
class _Named:
    """The nodes and jobs of the trace, by name."""

    nodes: Collection[str]
    jobs: Mapping[str, JobSpec]


def faults_of(table: Table, trace: Trace) -> tuple[tuple[float, Fault], ...]:
    """Return (seconds, fault) for every row, in order. Raises TraceError with every faulty row."""
    named = _Named({node.name for node in trace.nodes}, {job.name: job for job in trace.jobs})
    return tuple(read(table, lambda line: _row(line, named)))


def _row(line: TraceRow, named: _Named) -> tuple[float, Fault]:
    line.columns(COLUMNS[:2], COLUMNS[2:])
    seconds = line.number(WHEN)
    needed, make = line.choice(WHAT, KINDS)
    for name in COLUMNS[2:]:
        if name not in needed and line.has(name):
            allowed = f"no value, because a fault {line.text(WHAT)} has only {' and '.join(needed)}"
            raise FieldError(line.where, name, line.values[name], allowed)
    return seconds, make(line, named)


def _node(line: TraceRow, named: _Named) -> str:
    return _known(line, NODE, named.nodes)


def _job(line: TraceRow, named: _Named) -> str:
    return _known(line, JOB, named.jobs)


def _slot(line: TraceRow, named: _Named) -> Slot:
    """Return the slot that the row names. Raises FieldError if the job cannot have that slot."""
    job = named.jobs[_job(line, named)]
    role = line.choice(ROLE, {one.name: one for one in job.roles})
    count = max(role.replicas, job.max_workers) if role.name == WORKER else role.replicas
    index = line.count(INDEX)
    if index >= count:
        raise FieldError(
            line.where, INDEX, line.values[INDEX], f"0 to {count - 1}, the index of a {role.name} of {job.name}"
        )
    return Slot(role.name, index)


def _known(line: TraceRow, column: str, names: Collection[str]) -> str:
    name = line.text(column)
    if name not in names:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        allowed = f"a {column} of the trace: {', '.join(sorted(names)[:SHOWN])}{more}"
        raise FieldError(line.where, column, name, allowed)
    return name


# KINDS has, for each fault by name, the columns that a row needs, and the function that makes the fault from the row.
KINDS: Mapping[str, tuple[tuple[str, ...], Callable[[TraceRow, _Named], Fault]]] = {
    NodeLost.__name__: ((NODE,), lambda line, named: NodeLost(_node(line, named))),
    NodeBack.__name__: ((NODE,), lambda line, named: NodeBack(_node(line, named))),
    NodeCordoned.__name__: ((NODE,), lambda line, named: NodeCordoned(_node(line, named))),
    PodEvicted.__name__: (
        (JOB, ROLE, INDEX),
        lambda line, named: PodEvicted(_job(line, named), _slot(line, named)),
    ),
    JobDeleted.__name__: ((JOB,), lambda line, named: JobDeleted(_job(line, named))),
}
