"""Measures a job-level run from the facts of the simulated cluster, independently of the ledger's snapshot."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lab.sim.fluid.flow import Activity, JobWork
from lab.sim.fluid.speedmodels import RunningGang, Speeds
from lab.sim.objects import JobSpec
from lab.sim.report import JobOutcome, ResourceUse, RunResult
from lab.sim.traces import Trace
from lab.sim.utilityslots import delay
from policy.cluster.events import Event, NodeGone, NodeSeen, PodGone, PodSeen
from policy.cluster.job import PS, WORKER
from policy.cluster.node import Node
from policy.cluster.pod import Pod
from policy.cluster.resources import NOTHING, Resources


@dataclass(slots=True)
class JobRecord:
    """What the meter knows of one job: the resources that its pods hold, its workers, its ps-worker pairs and its
    resizes.
    """

    held: Counter[str] = field(default_factory=Counter)
    computing: bool = False
    workers: int = 0
    places: dict[str, Counter[str]] = field(default_factory=lambda: {PS: Counter(), WORKER: Counter()})
    pairs: int = 0
    cross_pairs: int = 0
    resizes: int = 0
    moves: int = 0


class FluidMeter:
    """Sums up, over the time from the first arrival on, which resources were held and used.

    At each instant call ``run_to``, then ``take`` with the facts, then ``look`` for each job whose activity may have
    changed.
    """

    def __init__(self, trace: Trace, start: float, speeds: Speeds, slot_seconds: float) -> None:
        self._trace, self._start, self._speeds, self._slot = trace, start, speeds, slot_seconds
        self._at = self._first = start + min((job.arrival for job in trace.jobs), default=0.0)
        self._largest = max(
            trace.nodes, key=lambda node: (node.allocatable["cpu"], node.name), default=Node("", NOTHING)
        )
        self._pods: dict[str, Pod] = {}
        self._nodes: dict[str, Node] = {}
        self._free = _Free(_typical(trace), trace.nodes)
        self._now: dict[str, Counter[str]] = {what: Counter() for what in ("room", "held", "computing")}
        self._sums: dict[str, dict[str, float]] = {what: {} for what in self._now}
        self._records: dict[str, JobRecord] = {}
        self._outcomes: dict[str, JobOutcome] = {}

    def run_to(self, now: float) -> None:
        """Count the time until ``now`` with what is held and used at present."""
        passed = now - self._at
        if passed <= 0:
            return
        for what, amounts in self._now.items():
            sums = self._sums[what]
            for name, amount in amounts.items():
                sums[name] = sums.get(name, 0.0) + amount * passed
        self._free.run(passed)
        self._at = now

    def take(self, events: Iterable[Event]) -> None:
        """Apply the facts of this instant (pods and nodes that came or went) to the resources held, used and free."""
        for event in events:
            match event:
                case PodSeen(pod) if pod.node and pod.uid not in self._pods:
                    self._pods[pod.uid] = pod
                    self._hold(pod, 1)
                case PodGone(uid) if uid in self._pods:
                    self._hold(self._pods.pop(uid), -1)
                case NodeSeen(node):
                    self._room(self._nodes.get(node.name), node)
                    self._nodes[node.name] = node
                case NodeGone(name) if name in self._nodes:
                    self._room(self._nodes.pop(name), None)
                case _:
                    pass

    def look(self, uid: str, work: JobWork | None) -> None:
        """Record whether the job computes now; ``work`` is None for a job that has ended."""
        record = self._records.get(uid)
        computing = work is not None and work.doing is Activity.COMPUTING
        if record is not None and record.computing is not computing:
            record.computing = computing
            _add(self._now["computing"], record.held, 1 if computing else -1)

    def given(self, uid: str, workers: int, work: JobWork) -> None:
        """Record the job's target; a change after it has computed counts as a resize."""
        record = self._record(uid)
        record.resizes += workers != record.workers and work.computed_at is not None
        record.workers = workers

    def moved(self, uid: str) -> None:
        """Count a migration of the job."""
        self._record(uid).moves += 1

    def _record(self, uid: str) -> JobRecord:
        found = self._records.get(uid)
        if found is None:
            found = self._records[uid] = JobRecord()
        return found

    def _hold(self, pod: Pod, sign: int) -> None:
        record = self._record(pod.job_uid)
        _add(record.held, pod.requests.amounts, sign)
        _add(self._now["held"], pod.requests.amounts, sign)
        if record.computing:
            _add(self._now["computing"], pod.requests.amounts, sign)
        self._free.hold(pod.node, pod.requests, sign)
        if pod.slot is not None and pod.slot.role in record.places:
            self._pair(record, pod, pod.slot.role, sign)

    def _pair(self, record: JobRecord, pod: Pod, role: str, sign: int) -> None:
        """Count the ps-worker pairs that a new binding forms with bound members of its job."""
        others = record.places[WORKER if role == PS else PS]
        if sign > 0:
            record.pairs += others.total()
            record.cross_pairs += others.total() - others[pod.node]
        record.places[role][pod.node] += sign

    def _room(self, old: Node | None, new: Node | None) -> None:
        if old is not None:
            _add(self._now["room"], old.allocatable.amounts, -1)
        if new is not None:
            _add(self._now["room"], new.allocatable.amounts, 1)
        self._free.node(old, new)

    # -- The methods below compute the results. ----------------------------------------------------

    def end(self, uid: str, work: JobWork, now: float, **how: bool) -> None:
        """Record the outcome of a job. ``how`` is finished, terminated or rejected; it is empty if the run ended before
        the job.
        """
        record, spec = self._records.pop(uid, None) or JobRecord(), work.spec
        curve = spec.training.utility if spec.training is not None and how.get("finished") else None
        late = delay(self._start + spec.arrival, now, self._slot)
        self._outcomes[uid] = JobOutcome(
            name=spec.name,
            arrival=spec.arrival,
            started=work.computed_at - self._start if work.computed_at is not None else None,
            ended=now - self._start,
            finished=how.get("finished", False),
            terminated=how.get("terminated", False),
            rejected=how.get("rejected", False),
            resizes=record.resizes,
            moves=record.moves,
            pairs=record.pairs,
            cross_pairs=record.cross_pairs,
            scaling_seconds=work.seconds[Activity.SCALING],
            running_seconds=work.seconds[Activity.COMPUTING],
            ideal_seconds=self._ideal(spec),
            utility=curve.at(late) if curve is not None else None,
            lateness=late - curve.target if curve is not None else None,
        )

    def _ideal(self, spec: JobSpec) -> float:
        """Return the seconds that the work takes on the largest node without other jobs, with the workers that the job
        asks for.
        """
        node = self._largest
        here = {role: (node.name,) * sum(r.replicas for r in spec.roles if r.name == role) for role in (WORKER, PS)}
        alone = {"": RunningGang(spec, here[WORKER], here[PS])}
        rate = self._speeds.rates(alone, {node.name: node})[""]
        return spec.work_seconds / rate if rate > 0 else math.inf

    def result(self, policy: str, now: float) -> RunResult:
        """Return the result of the run, which ended at ``now``."""
        jobs = tuple(outcome for _, outcome in sorted(self._outcomes.items()))
        last = max((job.ended for job in jobs), default=0.0)
        first = min((job.arrival for job in jobs), default=0.0)
        use = self._use()
        cpu = use.get("cpu", ResourceUse(0.0, 0.0))
        return RunResult(
            policy, jobs, last - first, cpu.computing, cpu.held, now - self._start,
            use=use, fragmentation=self._free.mean,
        )  # fmt: skip

    def _use(self) -> dict[str, ResourceUse]:
        """Return, for each resource, two shares of the capacity over time: in all pods of jobs, and in pods of jobs
        that computed.
        """
        room = self._sums["room"]
        return {
            name: ResourceUse(*(self._sums[what].get(name, 0.0) / room[name] for what in ("held", "computing")))
            for name in sorted(room)
            if room[name] and name != "pods"
        }


class _Free:
    """The mean fragmentation of the free room, measured in one resource: the one that a typical worker takes most of.

    The typical worker has the request that most workers of the trace have. A node's free room is usable as far as whole
    typical workers fit into it; the rest is fragmented.
    """

    def __init__(self, typical: Resources, nodes: Iterable[Node]) -> None:
        room: Counter[str] = Counter()
        for node in nodes:
            _add(room, node.allocatable.amounts, 1)
        names = [name for name in typical if name != "pods" and room[name]]
        self._typical = typical
        self._name = max(names, key=lambda name: (typical[name] / room[name], name), default="")
        # for each node: its free resources, and how many typical workers fit into them
        self._nodes: dict[str, tuple[Resources, int]] = {}
        self._all = self._useful = 0
        self._seconds = self._lost = 0.0

    def run(self, passed: float) -> None:
        """Add ``passed`` seconds to the mean, in which the fragmentation was as it is now."""
        self._seconds += passed
        if self._all > 0:
            self._lost += (1.0 - self._useful / self._all) * passed

    def node(self, old: Node | None, new: Node | None) -> None:
        """Account for a node that was added, changed or removed."""
        for node, sign in ((old, -1), (new, 1)):
            if node is not None:
                self._change(node.name, node.allocatable, sign)

    def hold(self, node: str, requests: Resources, sign: int) -> None:
        """Account for a pod that took room on the node or freed it."""
        self._change(node, requests, -sign)

    def _change(self, node: str, amounts: Resources, sign: int) -> None:
        before, fitted = self._nodes.get(node, (NOTHING, 0))
        after = before + amounts if sign > 0 else before - amounts
        fitting = self._typical.how_many(after)
        self._nodes[node] = after, fitting
        self._all += max(0, after[self._name]) - max(0, before[self._name])
        self._useful += self._typical[self._name] * (fitting - fitted)

    @property
    def mean(self) -> float:
        """Return the mean over time of the share of free room that is fragmented."""
        return self._lost / self._seconds if self._seconds else 0.0


def _typical(trace: Trace) -> Resources:
    asked: Counter[Resources] = Counter()
    for job in trace.jobs:
        if (role := job.role(WORKER)) is not None:
            asked[role.requests] += role.replicas
    return max(asked, key=lambda requests: (asked[requests], sorted(requests.amounts.items())), default=NOTHING)


def _add(to: Counter[str], amounts: Mapping[str, int], sign: int) -> None:
    for name, amount in amounts.items():
        to[name] += sign * amount
