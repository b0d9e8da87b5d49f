"""The simulated world: a cluster in memory with API verbs, the jobs' controllers, kubelets and training.

Every write makes a new revision and is recorded (``store.history``), so that an API server can be put around the world.
Time moves only in ``advance``; a write happens at ``now``. A verb returns None on success, else the Refusal that the
API server would give (``WorldRefusal``). Objects are addressed as in the API: by namespace and name, with UID and
version as optional preconditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lab.sim.objects import (
    GATE,
    Condition,
    JobObject,
    JobPhase,
    JobSpec,
    ObjectKind,
    PodObject,
    WorldChange,
    WorldRefusal,
)
from lab.sim.pods.apps import Apps
from lab.sim.pods.batch import IndexedJobController
from lab.sim.pods.kubelet import Kubelets
from lab.sim.pods.operator import Operator
from lab.sim.pods.worldcore import WorldCore, WorldSettings
from lab.sim.pods.worldrefusals import conflict, not_found, precondition
from lab.sim.pods.worldstore import WorldStore
from lab.sim.pods.worldtraining import TrainingProgress, WorldTraining
from policy.cluster.job import PS, WORKER
from policy.cluster.node import Node
from policy.cluster.resources import total


class SimulatedWorld:
    """A cluster in memory and virtual time; ``now`` is in seconds since the epoch."""

    def __init__(self, settings: WorldSettings | None = None, now: float = 0.0) -> None:
        self._core = WorldCore(settings or WorldSettings(), now)
        # Training is first: the effect of a write on progress is settled before other components react to it.
        self._training = WorldTraining(self._core)
        self._kubelets = Kubelets(self._core)
        self.operator = Operator(self._core)
        self.apps = Apps(self._core)
        self.batch = IndexedJobController(self._core)

    # -- The methods below read the time and let it pass. --------------------------------------

    @property
    def now(self) -> float:
        """Return the world's time."""
        return self._core.now

    def next_time(self) -> float | None:
        """Return the time of the next scheduled event, or None if there is none."""
        return self._core.engine.next_time()

    def advance(self, now: float) -> None:
        """Run all events up to and including that time."""
        for at, do in self._core.engine.due(now):
            self._core.now = max(self._core.now, at)
            do()
        self._core.now = max(self._core.now, now)

    # -- The methods below read the world. -----------------------------------------------------

    @property
    def store(self) -> WorldStore:
        """Return the store with all objects and their history, for reading only."""
        return self._core.store

    @property
    def revision(self) -> int:
        """Return the revision of the last write."""
        return self._core.store.revision

    def changes(self, since: int) -> list[WorldChange] | None:
        """Return the changes after that revision in order, or None if they were compacted (410 Gone)."""
        return self._core.store.since(since)

    def compact(self, revision: int) -> None:
        """Drop the history up to that revision."""
        self._core.store.compact(revision)

    def progress(self, job_uid: str) -> TrainingProgress:
        """Return the progress of the job's training; ``progress(...).at(world.now)`` is the work done."""
        return self._training.progress.get(job_uid, TrainingProgress())

    @property
    def gating(self) -> bool:
        """Tell whether new pods of the scheduler get the admission gate."""
        return self._core.gating

    def overcommitted(self) -> list[str]:
        """Return a line of text for each node whose bound pods request more than it has. Simulated kubelets refuse no
        pod, so tests ask this.
        """
        held: dict[str, list[PodObject]] = {}
        for pod in self.store.pods.values():
            if pod.holds_room:
                held.setdefault(pod.node, []).append(pod)
        return [
            f"node {name}: its pods take {used}, and it has {node.allocatable}"
            for name, node in sorted(self.store.nodes.items())
            if not (used := total(pod.requests for pod in held.get(name, []))).fits(node.allocatable)
        ]

    # -- The methods below change nodes. -------------------------------------------------------

    def add_node(self, node: Node) -> None:
        """Create or replace the node; a node without a UID gets one."""
        old = self.store.nodes.get(node.name)
        uid = node.uid or (old.uid if old else self.store.new_uid(ObjectKind.NODE))
        self._core.write_node(replace(node, uid=uid))

    def fail_node(self, name: str) -> WorldRefusal | None:
        """Make the node unreachable: its pods stop working, and are evicted after the toleration."""
        return self._set_ready(name, False)

    def heal_node(self, name: str) -> WorldRefusal | None:
        """Make the node reachable again."""
        return self._set_ready(name, True)

    def _set_ready(self, name: str, ready: bool) -> WorldRefusal | None:
        node = self.store.nodes.get(name)
        if node is None:
            return not_found("nodes", name)
        self._core.write_node(replace(node, ready=ready))
        return None

    def remove_node(self, name: str) -> WorldRefusal | None:
        """Delete the node; its pods are collected later."""
        if name not in self.store.nodes:
            return not_found("nodes", name)
        self._core.remove_node(name)
        return None

    # -- The methods below change jobs. --------------------------------------------------------

    def submit(self, spec: JobSpec) -> WorldRefusal | None:
        """Create the job; its controller then creates its pods."""
        if self.store.job_named(spec.namespace, spec.name) is not None:
            return WorldRefusal(409, "AlreadyExists", f'tfjobs.kubeflow.org "{spec.name}" already exists')
        self._core.write_job(JobObject(self.store.new_uid(ObjectKind.JOB), spec, created=self.now))
        return None

    def patch_workers(
        self, namespace: str, name: str, workers: int, *, uid: str = "", version: int = 0
    ) -> WorldRefusal | None:
        """Set the workers' replicas; the job's controller then adds pods, or removes them in its kind's order."""
        found = self._job(namespace, name, uid, version)
        if isinstance(found, WorldRefusal):
            return found
        if found.spec.role(WORKER) is None or workers < 0:
            kind = found.spec.kind.value
            return WorldRefusal(422, "Invalid", f'{kind} "{name}" is invalid: replicas of workers: {workers}')
        return self.put_spec(_with_replicas(found.spec, WORKER, workers), uid=uid)

    def put_spec(self, spec: JobSpec, *, uid: str = "", version: int = 0) -> WorldRefusal | None:
        """Replace the job's spec (bounds, replicas, annotations); an equal spec is not written."""
        found = self._job(spec.namespace, spec.name, uid, version)
        if isinstance(found, WorldRefusal):
            return found
        if found.spec != spec:
            self._core.write_job(replace(found, spec=spec))
        return None

    def suspend(self, namespace: str, name: str, suspended: bool = True) -> WorldRefusal | None:
        """Set runPolicy.suspend as a user: the operator deletes the job's pods, or creates them again.

        An equal value is not written, so the suspension keeps its origin. Only kinds that end can be suspended.
        """
        found = self._job(namespace, name)
        if isinstance(found, WorldRefusal):
            return found
        if not found.spec.kind.ends:
            return WorldRefusal(422, "Invalid", f'{found.spec.kind.value} "{name}" cannot be suspended')
        if found.suspended is not suspended:
            self._core.write_job(replace(found, suspended=suspended, released=False))
        return None

    def release(
        self, namespace: str, name: str, released: bool = True, *, suspended: bool | None = None,
        servers: int | None = None, uid: str = "", version: int = 0,
    ) -> WorldRefusal | None:  # fmt: skip
        """Suspend the job with Kohort's mark of a release, or with ``released`` False resume it and remove the mark.

        ``suspended``, if given, decides whether the job is suspended: a user's write may remove the mark and keep the
        suspension. ``servers`` sets the number of ps replicas in the same write.
        """
        found = self._job(namespace, name, uid, version)
        if isinstance(found, WorldRefusal):
            return found
        if not found.spec.kind.ends:
            return WorldRefusal(422, "Invalid", f'{found.spec.kind.value} "{name}" cannot be suspended')
        suspended = released if suspended is None else suspended
        spec = found.spec if servers is None else _with_replicas(found.spec, PS, servers)
        self._core.write_job(replace(found, spec=spec, suspended=suspended, released=released and suspended))
        return None

    def fail_job(self, namespace: str, name: str) -> WorldRefusal | None:
        """End the job as failed, as its deadline or its user would; its clean-pod policy decides about its pods."""
        found = self._job(namespace, name)
        if isinstance(found, WorldRefusal):
            return found
        if not found.phase.ended:
            self._core.write_job(replace(found, phase=JobPhase.FAILED, ended=self.now))
        return None

    def delete_job(self, namespace: str, name: str, *, uid: str = "") -> WorldRefusal | None:
        """Delete the job and, as the garbage collector does, its pods."""
        found = self._job(namespace, name, uid)
        if isinstance(found, WorldRefusal):
            return found
        self._core.remove_job(found.uid)
        for pod in self.store.pods_of(found.uid):
            self._core.delete_pod(pod)
        return None

    def _job(self, namespace: str, name: str, uid: str = "", version: int = 0) -> JobObject | WorldRefusal:
        found = self.store.job_named(namespace, name)
        if found is None:
            return not_found("tfjobs.kubeflow.org", name)
        return precondition(found, "tfjobs.kubeflow.org", name, uid, version) or found

    # -- The methods below change pods. --------------------------------------------------------

    def create_pod(self, pod: PodObject) -> WorldRefusal | None:
        """Create a pod without a job; the server sets UID and creation time."""
        if self.store.pod_named(pod.namespace, pod.name) is not None:
            return WorldRefusal(409, "AlreadyExists", f'pods "{pod.name}" already exists')
        self._core.admit_pod(replace(pod, uid=pod.uid or self.store.new_uid(ObjectKind.POD), created=self.now))
        return None

    def bind(
        self, namespace: str, name: str, node: str, *, uid: str = "", annotations: Mapping[str, str] | None = None
    ) -> WorldRefusal | None:
        """Create a Binding; its annotations are merged into the pod in the same write.

        It is refused where the API server's assignPod refuses, also for a pod that is on that node already. Neither the
        node's room nor its existence is checked.
        """
        pod = self._pod(namespace, name, uid)
        if isinstance(pod, WorldRefusal):
            return pod
        if pod.deleted is not None:
            return conflict("pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
        if pod.node:
            return conflict("pods/binding", name, f'pod {name} is already assigned to node "{pod.node}"')
        if pod.gates:
            return conflict("pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")
        merged = {**pod.annotations, **(annotations or {})}
        self._core.write_pod(
            replace(pod, node=node, annotations=merged, scheduled=Condition(True), nominated="")
        )  # The nomination is cleared, because the API server does so at a binding since Kubernetes 1.35.
        return None

    def delete_pod(self, namespace: str, name: str, *, uid: str = "") -> WorldRefusal | None:
        """Delete (or evict) the pod; a bound pod terminates first. Its job's controller then creates a new one."""
        pod = self._pod(namespace, name, uid)
        if isinstance(pod, WorldRefusal):
            return pod
        self._core.delete_pod(pod)
        return None

    def ungate(
        self, namespace: str, name: str, *, gate: str = GATE, uid: str = "", version: int = 0
    ) -> WorldRefusal | None:
        """Remove a scheduling gate."""
        pod = self._pod(namespace, name, uid, version)
        if isinstance(pod, WorldRefusal):
            return pod
        return self._change(pod, replace(pod, gates=tuple(other for other in pod.gates if other != gate)))

    def annotate(
        self, namespace: str, name: str, annotations: Mapping[str, str | None], *, uid: str = "", version: int = 0
    ) -> WorldRefusal | None:
        """Merge annotations into the pod; the value None removes one."""
        pod = self._pod(namespace, name, uid, version)
        if isinstance(pod, WorldRefusal):
            return pod
        merged = {**pod.annotations, **annotations}
        kept = {key: value for key, value in merged.items() if value is not None}
        return self._change(pod, replace(pod, annotations=kept))

    def nominate(self, namespace: str, name: str, node: str, *, uid: str = "", version: int = 0) -> WorldRefusal | None:
        """Set status.nominatedNodeName; an empty name clears it."""
        pod = self._pod(namespace, name, uid, version)
        if isinstance(pod, WorldRefusal):
            return pod
        return self._change(pod, replace(pod, nominated=node))

    def patch_scheduled_condition(
        self, namespace: str, name: str, status: bool, reason: str = "", message: str = "", *, uid: str = ""
    ) -> WorldRefusal | None:
        """Set the PodScheduled condition, as kube-scheduler does when it has found no node."""
        pod = self._pod(namespace, name, uid)
        if isinstance(pod, WorldRefusal):
            return pod
        return self._change(pod, replace(pod, scheduled=Condition(status, reason, message)))

    def preempt(self, namespace: str, name: str, *, uid: str = "") -> WorldRefusal | None:
        """Set the DisruptionTarget condition, as kube-scheduler does before it deletes a victim."""
        pod = self._pod(namespace, name, uid)
        if isinstance(pod, WorldRefusal):
            return pod
        return self._change(pod, replace(pod, preempted=True))

    def set_quota(self, namespace: str, pods: int | None) -> None:
        """Limit the number of the namespace's pods (ResourceQuota); None removes the limit."""
        self._core.quotas = {name: most for name, most in self._core.quotas.items() if name != namespace}
        if pods is not None:
            self._core.quotas[namespace] = pods

    def quotas(self) -> dict[str, tuple[int, int]]:
        """Return each quota by namespace: the maximum number of pods, and how many there are."""
        return {name: (most, self._core.counted_pods(name)) for name, most in self._core.quotas.items()}

    def set_gating(self, on: bool) -> None:
        """Switch the admission policy that gates the scheduler's new pods; it is not an object in this world."""
        self._core.gating = on

    def _pod(self, namespace: str, name: str, uid: str = "", version: int = 0) -> PodObject | WorldRefusal:
        found = self.store.pod_named(namespace, name)
        if found is None:
            return not_found("pods", name)
        return precondition(found, "pods", name, uid, version) or found

    def _change(self, old: PodObject, new: PodObject) -> WorldRefusal | None:
        """Write the pod; a patch without any change makes no revision."""
        if new != old:
            self._core.write_pod(new)
        return None


def _with_replicas(spec: JobSpec, name: str, count: int) -> JobSpec:
    roles = tuple(replace(role, replicas=count) if role.name == name else role for role in spec.roles)
    return replace(spec, roles=roles)
