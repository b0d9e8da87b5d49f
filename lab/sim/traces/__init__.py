"""What is submitted when, on which nodes: seeded experiments, and the public traces' formats from plain rows."""

from lab.sim.traces.base import DEFAULT_SCHEDULER, Trace, node, pod_requests, rigid
from lab.sim.traces.generate import kod2
from lab.sim.traces.reading import TraceError

__all__ = ["DEFAULT_SCHEDULER", "Trace", "TraceError", "kod2", "node", "pod_requests", "rigid"]
