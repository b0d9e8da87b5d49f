"""Traces: which jobs are submitted when and on which nodes, from seeded experiments and public trace formats."""

from lab.sim.traces.generate import kod2
from lab.sim.traces.reading import TraceError
from lab.sim.traces.trace import DEFAULT_SCHEDULER, Trace, node, pod_requests, rigid

__all__ = ["DEFAULT_SCHEDULER", "Trace", "TraceError", "kod2", "node", "pod_requests", "rigid"]
