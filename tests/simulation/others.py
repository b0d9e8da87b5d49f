"""Faults by other clients of the cluster: a scheduler that preempts, volumes, admission policies, quotas.

Each fault lasts for some time and ends with the storm at the latest. Only one fault has no end: an admission policy
refuses writes of one job for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from extender.kube.api import PODS, Json, Resource
from lab.embedded.apirules import StatusError
from lab.embedded.bridge import JOBS, replicas_of
from lab.embedded.config import ProfileConfig, SchedulerConfig
from lab.sim.objects import JobObject, PodObject
from lab.sim.traces import pod_requests
from lab.virtual.clocks import loop_time
from policy.cluster.constraints import Constraints, Requirement, Term
from policy.cluster.job import WORKER
from policy.cluster.snapshot import Snapshot
from tests.simulation.faults import DrawnFault, plain
from tests.simulation.processes import IndependentScheduler

if TYPE_CHECKING:
    from tests.simulation.run import Simulation

PREEMPTING: Final = "urgent-scheduler"
NAMESPACE: Final = "elsewhere"
URGENT: Final = 1000  # The preemptors' PriorityClass has this value; the pods of jobs have none, which counts as 0.
MOST_PREEMPTORS: Final = 3
POLICY: Final = "denied request: kept as it is"  # The admission policy answers with this message.
JOBS_OF: Final = "default"  # All jobs of a trace are in this namespace.


@dataclass(frozen=True, slots=True)
class Denial:
    """Says which kind of a job's writes is refused, and until when in the loop's time (None: without end)."""

    writes: str
    until: float | None


class Others:
    """All faults by other clients in one run."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._world = sim.world
        self._denied: dict[str, Denial] = {}  # job's UID -> which of its writes are refused
        # name of the PersistentVolumeClaim -> the time at which its volume arrives
        self._volumes: dict[str, float] = {}
        self._quota_until: float | None = None
        self._made = 0
        self._preemptors_end: dict[str, float] = {}  # preemptor's name -> the time at which its user deletes it
        self._scheduler: IndependentScheduler | None = None
        self.forever: str = ""  # the UID of the job whose writes are refused without end
        sim.cluster.server.admission = self._admit

    # -- The methods below are another scheduler that preempts. ------------------------------------

    def create_preemptor(self, fault: DrawnFault) -> str:
        """Create a pod of high priority for a node on which other pods must be preempted for it; it is deleted after a
        while.
        """
        place = self._on_node_with_ours(fault)
        if place is None or len(self._preemptors()) >= MOST_PREEMPTORS:
            return ""
        node, cores = place
        if self._scheduler is None:
            self._scheduler = IndependentScheduler(self._sim.around, _config(fault), self._sim.clock)
            self._sim.spawn(self._scheduler.run())
        self._made += 1
        asks = pod_requests(cores, 1)
        name = fault.draw("name", lambda _: f"preemptor-{self._made}")
        pod = PodObject("", NAMESPACE, name, asks, scheduler=PREEMPTING, priority=URGENT, constraints=_only(node))
        try:
            self._sim.cluster.bridge.do(lambda world: world.create_pod(pod))
        except StatusError:
            return ""
        self._preemptors_end[pod.name] = loop_time() + fault.uniform("long", 3.0, 40.0)
        return f"{asks} of {node}"

    def _on_node_with_ours(self, fault: DrawnFault) -> tuple[str, int] | None:
        """Return a node that hosts pods of jobs, and a number of cores: a pod that requests these can only run if some
        of the hosted pods are preempted. Return None if there is no such node.
        """
        held = [pod for pod in self._world.store.pods.values() if pod.holds_room]
        nodes = self._world.store.nodes
        names = sorted({pod.node for pod in held if pod.owner and pod.node in nodes})
        name = fault.pick("node", names, str)
        if name is None:
            return None
        whole = nodes[name].allocatable["cpu"] // 1000
        free = whole - -(-sum(pod.requests["cpu"] for pod in held if pod.node == name) // 1000)
        more = fault.choice("more", (1, 1, 2, 3))
        return name, fault.draw("cores", lambda _: max(1, min(whole, free + more)))

    def _preemptors(self) -> list[PodObject]:
        return [pod for pod in self._world.store.pods.values() if pod.scheduler == PREEMPTING]

    def _delete(self, pod: PodObject) -> None:
        self._sim.cluster.bridge.do(lambda world: world.delete_pod(pod.namespace, pod.name))

    # -- The method below takes a volume away. -----------------------------------------------------

    def lose_volume(self, fault: DrawnFault) -> str:
        """Let a job's volume be missing for a while or for the rest of the storm; pods that are bound have it
        already.
        """
        job = fault.pick("job", (job for job in self._open_jobs() if job.spec.volumes), _key)
        if job is None:
            return ""
        first = fault.draw("first consumer", lambda chance: chance.random() < 0.6)
        seconds = fault.choice("long", (6.0, 20.0, 1e6))
        for claim in job.spec.volumes:
            self._volumes[claim] = loop_time() + seconds
            self._sim.around.volumes.lose(JOBS_OF, claim, first_consumer=first)
        return f"{job.key} {'waits for its consumer' if first else 'is not bound'} for {seconds:g} s"

    # -- The methods below refuse writes as admission would. ---------------------------------------

    def refuse_writes(self, fault: DrawnFault) -> str:
        """Let an admission policy refuse one kind of a job's writes for a while."""
        job = fault.pick("job", (job for job in self._open_jobs() if job.uid not in self._denied), _key)
        if job is None:
            return ""
        writes, seconds = fault.choice("writes", ("bind", "resize", "gate")), fault.uniform("long", 5.0, 40.0)
        self._denied[job.uid] = Denial(writes, loop_time() + seconds)
        return f"{writes} of {job.key} for {seconds:.0f} s"

    def refuse_for_good(self, fault: DrawnFault) -> str:
        """Let an admission policy refuse, without end, one kind of writes of a job that has no bound pods."""
        waiting = (job for job in self._open_jobs() if not any(pod.node for pod in self._pods(job)))
        job = fault.pick("job", waiting, _key)
        if job is None or self.forever:
            return ""
        writes = fault.choice("writes", ("bind", "resize", "gate"))
        self.forever, self._denied[job.uid] = job.uid, Denial(writes, None)
        return f"{writes} of {job.key}"

    def denies(self, uid: str, writes: str) -> bool:
        """Tell whether the admission policy refuses this kind of writes of the job now."""
        denial = self._denied.get(uid)
        return denial is not None and denial.writes == writes and (denial.until is None or denial.until > loop_time())

    def _admit(self, resource: Resource, before: Json, after: Json) -> str:
        if not self._denied:
            return ""
        owner, writes = self._written(resource, before, after)
        return f"ValidatingAdmissionPolicy 'kept' with binding 'kept' {POLICY}" if self.denies(owner, writes) else ""

    def _written(self, resource: Resource, before: Json, after: Json) -> tuple[str, str]:
        """Return the UID of the job that the write is about, and the kind of the write: "bind", "resize", "gate", or ""
        for others.
        """
        if resource in JOBS:
            resized = replicas_of(before, WORKER) != replicas_of(after, WORKER)
            return str(before["metadata"]["uid"]), "resize" if resized else ""
        if resource != PODS:
            return "", ""
        pod = self._world.store.pods.get(before["metadata"]["uid"])
        old, new = before["spec"], after["spec"]
        writes = "bind" if new.get("nodeName") != old.get("nodeName") else ""
        gates = old.get("schedulingGates") != new.get("schedulingGates")
        return pod.owner if pod is not None else "", "gate" if gates else writes

    def shows_refusal(self, job: JobObject, snapshot: Snapshot) -> bool:
        """Tell whether this is the job whose writes are refused without end, and the ledger has the API server's
        message about it.
        """
        uid = f"{job.spec.namespace}/{job.uid}"
        known = [*snapshot.refused_writes.get(uid, ()), snapshot.gang(uid).refused]
        return job.uid == self.forever and any(one is not None and POLICY in one.message for one in known)

    # -- The method below sets a ResourceQuota. ----------------------------------------------------

    def set_quota(self, fault: DrawnFault) -> str:
        """Limit the pods in the jobs' namespace, for a while, to the present number or a few more."""
        if self._quota_until is not None:
            return ""
        used = sum(1 for pod in self._world.store.pods.values() if pod.namespace == JOBS_OF and pod.active)
        most = used + fault.choice("more", (0, 0, 1, 3))
        seconds = fault.choice("long", (10.0, 40.0, 160.0))
        self._quota_until = loop_time() + seconds
        self._sim.cluster.bridge.do(lambda world: world.set_quota(JOBS_OF, most))
        return f"{most} pods for {seconds:.0f} s"

    # -- The methods below end faults as time passes. ----------------------------------------------

    def end_faults(self) -> None:
        """End the faults whose time is over."""
        now = loop_time()
        for claim in [claim for claim, until in self._volumes.items() if until <= now]:
            self._arrive(claim)
        for pod in self._preemptors():
            if pod.deleted is None and self._preemptors_end[pod.name] <= now:
                self._delete(pod)
        if self._quota_until is not None and self._quota_until <= now:
            self._end_quota()
        self._denied = {uid: one for uid, one in self._denied.items() if one.until is None or one.until > now}

    def calm(self) -> None:
        """End all faults except the one without an end."""
        for claim in list(self._volumes):
            self._arrive(claim)
        self._end_quota()
        self._denied = {uid: one for uid, one in self._denied.items() if one.until is None}
        for pod in self._preemptors():
            if pod.deleted is None:
                self._delete(pod)

    def _arrive(self, claim: str) -> None:
        del self._volumes[claim]
        self._sim.around.volumes.arrive(JOBS_OF, claim)

    def _end_quota(self) -> None:
        if self._quota_until is not None:
            self._quota_until = None
            self._sim.cluster.bridge.do(lambda world: world.set_quota(JOBS_OF, None))

    def _open_jobs(self) -> Iterable[JobObject]:
        return [job for job in self._world.store.jobs.values() if not job.phase.ended]

    def _pods(self, job: JobObject) -> Iterable[PodObject]:
        return self._world.store.pods_of(job.uid)


def _only(node: str) -> Constraints:
    """Return a node affinity that allows the node of that name only."""
    return Constraints(terms=(Term((), (Requirement("metadata.name", "In", (node,)),)),))


def _key(job: JobObject) -> str:
    return plain(job.key)


def _config(fault: DrawnFault) -> SchedulerConfig:
    """Return the default scheduler's configuration: no extender, preemption, and a cache that may lag."""
    lag = fault.choice("lag", (0.0, 0.05, 0.4))
    return SchedulerConfig({PREEMPTING: ProfileConfig(preemption=True)}, lag=lag)
