"""The part of kube-controller-manager that creates and deletes the pods of StatefulSets and Deployments.

StatefulSets follow ``updateStatefulSet`` of pkg/controller/statefulset/stateful_set_control.go with podManagementPolicy
Parallel: an ordinal waits for its terminating pod, and a pod that has ended is deleted first. Deployments follow
``manageReplicas`` of pkg/controller/replicaset/replica_set.go; `first_to_delete` chooses the pod to delete. Not
simulated: the Deployment's step to its one ReplicaSet (the template never changes), slow start, and volume claims. Rate
and burst are those of the operator, whose defaults are the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cmp_to_key

from lab.sim.objects import JobObject, PodObject, WorkloadKind
from lab.sim.pods.reconciler import Reconciler
from lab.sim.pods.worldcore import Do, WorldCore
from policy.cluster.job import WORKER, Slot
from policy.cluster.pod import Phase

POD_INDEX = "apps.kubernetes.io/pod-index"
TEMPLATE_HASH = "pod-template-hash"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
# These are the characters of rand.SafeEncodeString of k8s.io/apimachinery. It has no vowels, so that no words appear.
SAFE = "bcdfghjklmnpqrstvwxz2456789"
REQUEST = 1.0
PHASES = {Phase.PENDING: 0, Phase.RUNNING: 2}
ENDED = (Phase.SUCCEEDED, Phase.FAILED)


class Apps(Reconciler):
    """The controllers of StatefulSets and of Deployments."""

    def __init__(self, core: WorldCore) -> None:
        super().__init__(core, REQUEST)
        self._made = 0  # number of pods with a generated name that were created so far

    def _is_ours(self, job: JobObject) -> bool:
        return not job.spec.kind.ends

    def _next(self, job: JobObject) -> tuple[float, Do] | None:
        pods = self._core.store.pods_of(job.uid)
        if job.spec.kind is WorkloadKind.STATEFULSET:
            return self._next_of_set(job, pods)
        return self._next_of_deployment(job, pods)

    def _next_of_set(self, job: JobObject, pods: Sequence[PodObject]) -> tuple[float, Do] | None:
        """Return the next write: delete ended pods, create missing ordinals, delete surplus ones, highest first."""
        there = {pod.slot: pod for pod in pods}
        for slot in job.spec.slots:
            found = there.get(slot)
            if found is None:
                return REQUEST, lambda slot=slot: self._create_worker(job, slot, f"{job.spec.name}-{slot.index}")
            if found.phase in ENDED and found.deleted is None:
                return REQUEST, lambda found=found: self._core.delete_pod(found)
        condemned = [pod for pod in pods if pod.slot not in job.spec.slots and pod.deleted is None]
        if condemned:
            last = max(condemned, key=lambda pod: pod.slot.index if pod.slot else 0)
            return REQUEST, lambda: self._core.delete_pod(last)
        return None

    def _next_of_deployment(self, job: JobObject, pods: Sequence[PodObject]) -> tuple[float, Do] | None:
        """Return the next write; ended and terminating pods do not count, so they are replaced at once."""
        active = [pod for pod in pods if pod.active]
        if len(active) < job.spec.workers:
            return REQUEST, lambda: self._create_replica(job)
        if len(active) > job.spec.workers:
            first = first_to_delete(active, self._core.now)
            return REQUEST, lambda: self._core.delete_pod(first)
        return None

    def _create_replica(self, job: JobObject) -> None:
        self._made += 1
        name = f"{job.spec.name}-{template_hash(job)}-{safe(self._made * 7_368_787, 5)}"
        self._create_worker(job, Slot(WORKER, self._made), name)

    def _create_worker(self, job: JobObject, slot: Slot, name: str) -> None:
        role = job.spec.role(WORKER)
        ordinal = job.spec.kind is WorkloadKind.STATEFULSET
        own_labels = {POD_INDEX: str(slot.index)} if ordinal else {TEMPLATE_HASH: template_hash(job)}
        if role is not None:
            self._create(job, role, slot, name, notes={}, labels={"app": job.spec.name, **own_labels})


def template_hash(job: JobObject) -> str:
    """Return the text that stands for the hash of the pod template in names and labels; it never changes."""
    return safe(int(job.uid[-12:], 16) * 387_420_489 + 1, 9)


def safe(number: int, length: int) -> str:
    """Encode the number in letters and digits that form no words, as in generated names of pods."""
    letters = []
    for _ in range(length):
        number, rest = divmod(number, len(SAFE))
        letters.append(SAFE[rest])
    return "".join(letters)


def first_to_delete(active: Iterable[PodObject], now: float) -> PodObject:
    """Return the pod of a ReplicaSet that is deleted first.

    The order is that of ``ActivePodsWithRanks`` in pkg/controller/controller_utils.go. Here a running pod is ready, and
    its containers never restart.
    """
    pods = list(active)
    beside = Counter(pod.node for pod in pods)

    def order(one: PodObject, other: PodObject) -> int:
        for first, second in zip(_deletion_rank(one, beside), _deletion_rank(other, beside), strict=True):
            if first != second:
                return -1 if first < second else 1
        return _younger(one, other, now)

    return min(pods, key=cmp_to_key(order))


def _deletion_rank(pod: PodObject, beside: Counter[str]) -> tuple[int, ...]:
    """Return the sort key: unassigned first, then pending, then lower deletion cost, then more siblings on the node."""
    return bool(pod.node), PHASES[pod.phase], deletion_cost(pod), -beside[pod.node]


def deletion_cost(pod: PodObject) -> int:
    """Return the pod's deletion cost, or 0 without a valid one.

    The source is GetDeletionCostFromPodAnnotations in pkg/apis/core/v1/helper.
    """
    try:
        return int(pod.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0


def _younger(one: PodObject, other: PodObject, now: float) -> int:
    """Compare two pods by the logarithm of their time since ready, or since creation; ties go by UID.

    This is LogarithmicScaleDown in kube-controller-manager.
    """
    ready = one.started is not None and other.started is not None and one.started != other.started
    since = [pod.started if ready and pod.started is not None else pod.created for pod in (one, other)]
    first, second = (int(math.log2((now - at) * 1e9)) if now > at else -1 for at in since)
    if first != second:
        return first - second
    return -1 if one.uid < other.uid else 1
