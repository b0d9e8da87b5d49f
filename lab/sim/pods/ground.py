"""What the parts of the world stand on: the store, virtual time, and who is told of a write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lab.sim.engine import Engine
from lab.sim.objects import GATE, KOHORT, SCHEDULING_GATED, Condition, JobObject, PodObject
from lab.sim.pods.store import Store
from lab.sim.speed import REMOTE
from policy.cluster.model import ENDED, Node

# Ranks of what happens at one instant: work that is done frees room before anybody is placed.
DONE, GONE, STARTED, OPERATOR = range(4)

Do = Callable[[], None]


@dataclass(frozen=True, slots=True)
class WorldSettings:
    """How fast the world's actors are. Seconds and requests a second; a rate of 0 is unlimited.

    The operator's rate and burst are the training operator's own defaults (--qps 20, --burst 30); it sends two
    requests for each pod, the pod's and its service's. restart_seconds: what a job loses when its workers change.
    eviction_seconds: the tolerance for an unreachable node (300 in every pod); collect_seconds: the pod collector's
    period after a node was deleted.
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


class Ground:
    """Store, clock and engine, with listeners that are told of each write in the order in which they came."""

    def __init__(self, settings: WorldSettings, now: float) -> None:
        self.settings = settings
        self.store = Store()
        self.engine: Engine[Do] = Engine()
        self.now = now
        self.gating = False
        self.quotas: dict[str, int] = {}  # the most pods that a namespace may have
        self.pod_listeners: list[Callable[[PodObject], None]] = []
        self.job_listeners: list[Callable[[JobObject], None]] = []
        self.node_listeners: list[Callable[[Node], None]] = []

    def later(self, seconds: float, do: Do, rank: int) -> int:
        """Let it happen after so many seconds."""
        return self.engine.schedule(self.now + seconds, do, rank)

    def write_node(self, node: Node) -> None:
        """Create or change a node."""
        stored = self.store.put_node(node)
        for tell in self.node_listeners:
            tell(stored)

    def remove_node(self, name: str) -> None:
        """Delete a node; its pods stay until the collector comes."""
        node = self.store.nodes[name]
        self.store.drop_node(name)
        for tell in self.node_listeners:
            tell(node)

    def write_job(self, job: JobObject) -> JobObject:
        """Create or change a job."""
        stored = self.store.put_job(job)
        for tell in self.job_listeners:
            tell(stored)
        return stored

    def remove_job(self, uid: str) -> None:
        """Delete a job."""
        job = self.store.jobs[uid]
        self.store.drop_job(uid)
        for tell in self.job_listeners:
            tell(job)

    def write_pod(self, pod: PodObject) -> PodObject:
        """Create or change a pod."""
        stored = self.store.put_pod(pod)
        for tell in self.pod_listeners:
            tell(stored)
        return stored

    def exceeds_quota(self, namespace: str) -> bool:
        """Whether the API server refuses another pod there: one that has ended counts no more, one that stops does."""
        most = self.quotas.get(namespace)
        if most is None:
            return False
        used = sum(1 for pod in self.store.pods.values() if pod.namespace == namespace and pod.phase not in ENDED)
        return used >= most

    def admit_pod(self, pod: PodObject) -> PodObject:
        """Create a pod as the API server does: the admission policy gates it while gating is on."""
        if self.gating and pod.scheduler == self.settings.scheduler and not pod.node:
            gates = pod.gates if GATE in pod.gates else (*pod.gates, GATE)
            pod = replace(pod, gates=gates)
        if pod.gates:
            pod = replace(pod, scheduled=Condition(False, SCHEDULING_GATED))
        return self.write_pod(pod)

    def remove_pod(self, uid: str) -> None:
        """Take a pod out of the store."""
        pod = self.store.pods[uid]
        self.store.drop_pod(uid)
        for tell in self.pod_listeners:
            tell(pod)

    def delete_pod(self, pod: PodObject) -> None:
        """Ask the pod to go: at once where no kubelet has it, else it terminates first."""
        if not pod.node:
            self.remove_pod(pod.uid)
        elif pod.deleted is None:
            self.write_pod(replace(pod, deleted=self.now))
