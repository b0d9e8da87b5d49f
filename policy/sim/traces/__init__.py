"""What is submitted when, on which nodes: seeded experiments, and the public traces' formats from plain rows."""

from policy.sim.traces.base import DEFAULT_SCHEDULER, Trace, node, pod_requests, rigid
from policy.sim.traces.generate import kod2
from policy.sim.traces.reading import TraceError

__all__ = ["DEFAULT_SCHEDULER", "Trace", "TraceError", "kod2", "node", "pod_requests", "rigid"]
