"""Traces: which jobs are submitted when and on which nodes, from seeded experiments and public trace formats."""

from lab.sim.traces.base import DEFAULT_SCHEDULER, Trace, node, pod_requests, rigid
from lab.sim.traces.generate import kod2
from lab.sim.traces.reading import TraceError

__all__ = ["DEFAULT_SCHEDULER", "Trace", "TraceError", "kod2", "node", "pod_requests", "rigid"]
