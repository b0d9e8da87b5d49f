"""Build facts and snapshots for tests. Only this module calls the constructors of facts, so that a test names only what
matters to it.

``job("a").ps(1).workers(1, 4).cpu(2)`` is a TFJob; ``World(policy)`` is a cluster without I/O, whose methods make steps
as the ledger does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from lab.sim.invariants import bound_into_taken, index_errors, promised_beyond, violations
from policy.cluster.actions import Admit, Bind, Effect, RefuseBind, Released, Resize
from policy.cluster.constraints import ANYWHERE, Constraints, Taint
from policy.cluster.events import (
    BindDone,
    BindDropped,
    BindHeld,
    BindRefused,
    BindUnknown,
    Event,
    JobGone,
    JobSeen,
    Led,
    NodeGone,
    NodeNotOffered,
    NodeSeen,
    PodGone,
    PodSeen,
    QuotaSeen,
    Synced,
    Tick,
)
from policy.cluster.gang import Gang, State
from policy.cluster.job import PS, WORKER, Job, Role, Slot
from policy.cluster.node import Node
from policy.cluster.pod import Phase, Pod
from policy.cluster.quota import Quota
from policy.cluster.resources import Resources, total
from policy.cluster.snapshot import Rules, Snapshot
from policy.step import step
from policy.systems.base import Policy
from policy.systems.kod2 import Kod2

GIB = 1024**3
START = 1_000_000.0


def res(cpu: float = 0, memory: float = 0, **others: int) -> Resources:
    """Return resources: ``cpu`` in cores, ``memory`` in GiB; a pod's request has ``pods=1``."""
    named = {"cpu": int(cpu * 1000), "memory": int(memory * GIB)} | others
    return Resources({name: amount for name, amount in named.items() if amount})


def node(name: str, cpu: float = 10, memory: float = 32, **changes: object) -> Node:
    """Return a node of KOD2's cluster: 10 cores, 32 GiB."""
    made = Node(name, res(cpu, memory, pods=110), uid=f"uid-{name}", version=1)
    return replace(made, **changes)  # type: ignore[arg-type]


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Taint:
    return Taint(key, value, effect)


def ps(index: int = 0) -> Slot:
    return Slot(PS, index)


def w(index: int) -> Slot:
    return Slot(WORKER, index)


def slots(nodes: Mapping[Slot, str]) -> dict[str, str]:
    """Return the plan with its slots as text, such as ``{"ps-0": "n1"}``."""
    return {str(slot): where for slot, where in sorted(nodes.items())}


@dataclass(frozen=True)
class JobBuilder:
    """A job under construction; every method returns a changed copy."""

    made: Job

    def with_(self, **changes: object) -> JobBuilder:
        return replace(self, made=replace(self.made, **changes))  # type: ignore[arg-type]

    def role(
        self, name: str, replicas: int, cpu: float = 1, memory: float = 2, constraints: Constraints = ANYWHERE,
        unsupported: tuple[str, ...] = (), **others: int,
    ) -> JobBuilder:  # fmt: skip
        made = Role(name, replicas, res(cpu, memory, pods=1, **others), constraints, unsupported)
        kept = tuple(role for role in self.made.roles if role.name != name)
        return self.with_(roles=(*kept, made))

    def ps(self, replicas: int = 1, cpu: float = 1, memory: float = 2, **more: object) -> JobBuilder:
        return self.role(PS, replicas, cpu, memory, **more)  # type: ignore[arg-type]

    def workers(
        self, least: int, most: int | None = None, asked: int | None = None, cpu: float = 2, memory: float = 4,
        **more: object,
    ) -> JobBuilder:  # fmt: skip
        most = least if most is None else most
        made = self.role(WORKER, least if asked is None else asked, cpu, memory, **more)  # type: ignore[arg-type]
        return made.with_(min_workers=least, max_workers=most, elastic=most > least)

    def replicas(self, workers: int) -> JobBuilder:
        """Set the number of workers that the job object asks for now."""
        roles = tuple(replace(role, replicas=workers) if role.name == WORKER else role for role in self.made.roles)
        return self.with_(roles=roles)

    def arrived(self, seconds: float) -> JobBuilder:
        """Set the job's arrival, in seconds after the start."""
        return self.with_(arrival=START + seconds)

    def done(self) -> Job:
        return self.made


def job(name: str, **changes: object) -> JobBuilder:
    made = Job(f"job-{name}", "team", name, "TFJob", START, (), version=1)
    return JobBuilder(replace(made, **changes))  # type: ignore[arg-type]


def pod(name: str, of: Job | None = None, slot: Slot | None = None, **changes: object) -> Pod:
    """Return a pod; with ``of`` and ``slot``, the pod is the member of that job in that slot, and has its role's
    requests.
    """
    made = Pod(f"uid-{name}", "team", name, since=START, version=1)
    if of is not None and slot is not None:
        role = of.role(slot.role)
        requests = role.requests if role else res(pods=1)
        made = replace(made, job_uid=of.uid, slot=slot, opted_in=True, requests=requests)
    return replace(made, **changes)  # type: ignore[arg-type]


def members(of: Job, workers: int | None = None) -> list[Pod]:
    """Return the pods that the operator creates: all rigid members, and ``workers`` workers.

    The default is the number of workers that the job object asks for.
    """
    asked = of.worker.replicas if of.worker else 0
    return [pod(f"{of.name}-{slot}", of, slot) for slot in of.slots(asked if workers is None else workers)]


def guest(name: str, where: str, cpu: float = 1, memory: float = 1) -> Pod:
    """Return a bound pod that did not opt in."""
    return pod(name, node=where, requests=res(cpu, memory, pods=1), phase=Phase.RUNNING)


@dataclass
class World:
    """A ledger without I/O: it holds the snapshot, collects the effects, and checks the invariants after every step."""

    policy: Policy = field(default_factory=Kod2)
    now: float = START
    snapshot: Snapshot = field(default_factory=Snapshot)
    effects: list[Effect] = field(default_factory=list)
    checked: bool = True

    # -- The methods below make facts known. ------------------------------------------------------

    def rules(self, **changes: object) -> World:
        self.snapshot = replace(self.snapshot, rules=replace(self.snapshot.rules, **changes))  # type: ignore[arg-type]
        return self

    def do(self, *events: Event) -> tuple[Effect, ...]:
        self.snapshot, effects = step(self.snapshot, events, self.policy, self.now)
        self.effects += effects
        if self.checked:
            assert violations(self.snapshot) == []
            assert index_errors(self.snapshot) == []
            assert bound_into_taken(self.snapshot, effects) == []
        return effects

    def nodes(self, *shape: Node | str) -> World:
        """Add these nodes, and report that every watch has delivered its first list."""
        made = [n if isinstance(n, Node) else node(n) for n in shape]
        self.do(*(NodeSeen(n) for n in made), Synced())
        return self

    def submit(self, *jobs: Job | JobBuilder) -> tuple[Effect, ...]:
        """Report the jobs and all their pods in one step; return its effects."""
        made = [j.done() if isinstance(j, JobBuilder) else j for j in jobs]
        events: list[Event] = [JobSeen(j) for j in made]
        return self.do(*events, *(PodSeen(p) for j in made for p in members(j)))

    def see(self, *things: Job | JobBuilder | Node | Pod) -> tuple[Effect, ...]:
        """Report new versions of these objects in one step; return its effects."""
        return self.do(*(self._seen(thing) for thing in things))

    def _seen(self, thing: Job | JobBuilder | Node | Pod) -> Event:
        match thing:
            case Node():
                old_node = self.snapshot.nodes.get(thing.name)
                return NodeSeen(replace(thing, version=1 + (old_node.version if old_node else 0)))
            case Pod():
                old_pod = self.snapshot.pods.get(thing.uid)
                return PodSeen(replace(thing, version=1 + (old_pod.version if old_pod else 0)))
            case _:
                made = thing.done() if isinstance(thing, JobBuilder) else thing
                old_job = self.snapshot.jobs.get(made.uid)
                return JobSeen(replace(made, version=1 + (old_job.version if old_job else 0)))

    def limit(self, name: str = "few", used: Resources | None = None, **hard: int) -> tuple[Effect, ...]:
        """Set a ResourceQuota of the namespace ``team``, such as ``pods=4``.

        ``used`` is the usage that the quota states; by default, it is the sum of the requests of the namespace's pods
        that have not ended.
        """
        most, counted = res(**hard), used
        if counted is None:
            there = [p for p in self.snapshot.pods.values() if p.namespace == "team" and not p.ended]
            asked = total(p.requests for p in there)
            counted = Resources({resource: asked[resource] for resource in most.amounts})
        old = self.snapshot.quotas.get(f"team/{name}")
        made = Quota("team", name, most, counted, version=1 + (old.version if old else 0))
        return self.do(QuotaSeen(made))

    def pass_time(self, seconds: float) -> tuple[Effect, ...]:
        self.now += seconds
        return self.do(Tick())

    # -- The methods below do what kube-scheduler and the API server do. ------------------------------

    def hold(self, uid: str, where: str | None = None) -> tuple[Effect, ...]:
        """Let kube-scheduler call bind for the pod, on its planned node unless ``where`` is given."""
        held = self.snapshot.pods[uid]
        assert held.slot is not None
        return self.do(BindHeld(uid, where or self.snapshot.gang(held.job_uid).nodes[held.slot]))

    def answer(self, effects: Iterable[Effect]) -> None:
        """Let the API server make every binding among the effects, and the watch show that the pod is bound."""
        for effect in effects:
            if isinstance(effect, Bind):
                self.do(BindDone(effect.uid, effect.node))
                bound = self.snapshot.pods[effect.uid]
                self.see(replace(bound, node=effect.node, plan=effect.plan, phase=Phase.RUNNING))

    def bind(self, of: Job | JobBuilder) -> None:
        """Let kube-scheduler call bind for every member of the job that has a node, and the API server make the
        bindings.
        """
        uid = of.done().uid if isinstance(of, JobBuilder) else of.uid
        for member in list(self.snapshot.pods_of(uid)):
            gang = self.snapshot.gang(uid)
            if member.slot in gang.nodes and not member.node and uid in self.snapshot.jobs:
                self.answer(self.hold(member.uid))

    def start(self, *jobs: Job | JobBuilder) -> World:
        """Submit and bind each job; then play its operator, which deletes surplus pods and creates missing ones."""
        for one in jobs:
            self.submit(one)
            self.bind(one)
            self.operate(one)
        return self

    def operate(self, of: Job | JobBuilder) -> None:
        """Patch the job's replicas as the controller does, create and delete worker pods, and bind the new ones."""
        uid = of.done().uid if isinstance(of, JobBuilder) else of.uid
        given = self.snapshot.gang(uid).workers
        self.see(JobBuilder(self.snapshot.jobs[uid]).replicas(given))
        there = {p.slot: p for p in self.snapshot.pods_of(uid)}
        surplus = [p for p in there.values() if p.slot and p.slot.role == WORKER and p.slot.index >= given]
        self.do(*(PodGone(p.uid) for p in surplus))
        this = self.snapshot.jobs[uid]
        self.do(*(PodSeen(self.fresh(p)) for p in members(this) if p.slot not in there))
        self.bind(this)

    def fresh(self, made: Pod) -> Pod:
        """Return a new pod with the same name and another UID."""
        return replace(made, uid=f"{made.uid}@{self.snapshot.generation}", since=self.now)

    def end(self, of: Job | JobBuilder) -> tuple[Effect, ...]:
        """Let the job finish with succeeded pods, which release their room; return the step's effects."""
        uid = of.done().uid if isinstance(of, JobBuilder) else of.uid
        pods = [replace(p, phase=Phase.SUCCEEDED, version=p.version + 1) for p in self.snapshot.pods_of(uid)]
        events: list[Event] = [PodSeen(p) for p in pods]
        this = self.snapshot.jobs[uid]
        return self.do(*events, JobSeen(replace(this, finished=True, version=this.version + 1)))

    # -- The methods below return parts of the snapshot. --------------------------------------------

    def gang(self, name: str) -> Gang:
        return self.snapshot.gang(f"job-{name}")

    def state(self, name: str) -> State:
        return self.gang(name).state

    def plan(self, name: str) -> dict[str, str]:
        return slots(self.gang(name).nodes)

    def reason(self, name: str) -> str:
        verdict = self.snapshot.verdicts.get(f"job-{name}")
        return verdict.reason.value if verdict else ""

    def pod(self, name: str) -> Pod:
        return self.snapshot.pods[f"uid-{name}"]

    def over(self) -> list[str]:
        return promised_beyond(self.snapshot)


__all__ = [
    "GIB",
    "START",
    "Admit",
    "Bind",
    "BindDone",
    "BindDropped",
    "BindHeld",
    "BindRefused",
    "BindUnknown",
    "JobBuilder",
    "JobGone",
    "JobSeen",
    "Led",
    "NodeGone",
    "NodeNotOffered",
    "NodeSeen",
    "PodGone",
    "PodSeen",
    "RefuseBind",
    "Released",
    "Resize",
    "Rules",
    "State",
    "Synced",
    "Tick",
    "World",
    "guest",
    "job",
    "members",
    "node",
    "pod",
    "ps",
    "res",
    "slots",
    "taint",
    "w",
]  # fmt: skip
