"""What the components of the simulated world share: the store, virtual time, and listeners for writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lab.sim.engine import Engine
from lab.sim.objects import GATE, KOHORT, SCHEDULING_GATED, Condition, JobObject, PodObject
from lab.sim.pods.worldstore import WorldStore
from lab.sim.speed import REMOTE
from policy.cluster.node import Node
from policy.cluster.pod import ENDED

# The ranks order the events of one instant: completed work comes first, so that it frees room before any pod is placed.
DONE, GONE, STARTED, OPERATOR = range(4)

Do = Callable[[], None]


@dataclass(frozen=True, slots=True)
class WorldSettings:
    """The speed of the world's components, in seconds and requests per second; a rate of 0 is unlimited.

    The operator's rate and burst are the training operator's defaults (--qps 20, --burst 30); it sends two requests per
    pod, one for the pod and one for its service. ``restart_seconds`` is how long a job stops when its workers change.
    ``eviction_seconds`` is the toleration for an unreachable node (300 in every pod), and ``collect_seconds`` the
    period of the pod garbage collector after a node was deleted.
    """

    operator_rate: float = 20.0
    operator_burst: float = 30.0
    reconcile_seconds: float = 0.05
    start_seconds: float = 1.0
    terminate_seconds: float = 1.0
    restart_seconds: float = 0.0
    remote: float = REMOTE
    eviction_seconds: float = 300.0
    collect_seconds: float = 20.0
    scheduler: str = KOHORT


class WorldCore:
    """Store, clock and event engine, with listeners that are called for each write, in the order of the writes."""

    def __init__(self, settings: WorldSettings, now: float) -> None:
        self.settings = settings
        self.store = WorldStore()
        self.engine: Engine[Do] = Engine()
        self.now = now
        self.gating = False
        self.quotas: dict[str, int] = {}  # the maximum number of pods by namespace
        self.pod_listeners: list[Callable[[PodObject], None]] = []
        self.job_listeners: list[Callable[[JobObject], None]] = []
        self.node_listeners: list[Callable[[Node], None]] = []

    def later(self, seconds: float, do: Do, rank: int) -> int:
        """Call ``do`` after ``seconds`` seconds; return a ticket with which the call can be cancelled."""
        return self.engine.schedule(self.now + seconds, do, rank)

    def write_node(self, node: Node) -> None:
        """Create or change a node."""
        stored = self.store.put_node(node)
        for listener in self.node_listeners:
            listener(stored)

    def remove_node(self, name: str) -> None:
        """Delete a node; its pods stay until the pod garbage collector runs."""
        node = self.store.nodes[name]
        self.store.drop_node(name)
        for listener in self.node_listeners:
            listener(node)

    def write_job(self, job: JobObject) -> JobObject:
        """Create or change a job."""
        stored = self.store.put_job(job)
        for listener in self.job_listeners:
            listener(stored)
        return stored

    def remove_job(self, uid: str) -> None:
        """Delete a job."""
        job = self.store.jobs[uid]
        self.store.drop_job(uid)
        for listener in self.job_listeners:
            listener(job)

    def write_pod(self, pod: PodObject) -> PodObject:
        """Create or change a pod."""
        stored = self.store.put_pod(pod)
        for listener in self.pod_listeners:
            listener(stored)
        return stored

    def exceeds_quota(self, namespace: str) -> bool:
        """Tell whether the namespace's quota forbids another pod."""
        most = self.quotas.get(namespace)
        return most is not None and self.counted_pods(namespace) >= most

    def counted_pods(self, namespace: str) -> int:
        """Return how many pods of the namespace a quota counts; ended pods do not count, terminating ones do."""
        return sum(1 for pod in self.store.pods.values() if pod.namespace == namespace and pod.phase not in ENDED)

    def admit_pod(self, pod: PodObject) -> PodObject:
        """Create a pod as the API server does: while gating is on, the admission policy adds the gate."""
        if self.gating and pod.scheduler == self.settings.scheduler and not pod.node:
            gates = pod.gates if GATE in pod.gates else (*pod.gates, GATE)
            pod = replace(pod, gates=gates)
        if pod.gates:
            pod = replace(pod, scheduled=Condition(False, SCHEDULING_GATED))
        return self.write_pod(pod)

    def remove_pod(self, uid: str) -> None:
        """Remove a pod from the store."""
        pod = self.store.pods[uid]
        self.store.drop_pod(uid)
        for listener in self.pod_listeners:
            listener(pod)

    def delete_pod(self, pod: PodObject) -> None:
        """Delete a pod: an unbound one disappears at once, a bound one terminates first."""
        if not pod.node:
            self.remove_pod(pod.uid)
        elif pod.deleted is None:
            self.write_pod(replace(pod, deleted=self.now))
