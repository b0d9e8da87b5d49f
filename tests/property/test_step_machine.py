"""Property test: after random events in any order the invariants hold, and the facts alone restore the state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lab.sim.invariants import index_errors, promised_beyond, violations
from policy.answers.verdict import filter_pod
from policy.cluster.actions import Action, Admit, Decision, Effect, Migrate, Resize
from policy.cluster.job import PS, WORKER, Job, queued
from policy.cluster.memo import Memo
from policy.cluster.node import Node
from policy.cluster.pod import Phase, Pod
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.refusal import refuse_pod
from policy.cluster.snapshot import Snapshot, reason_of
from policy.desired import desired
from policy.placement.gang import ask_of, place
from policy.step import step
from policy.systems.base import Policy
from policy.systems.dragon import Dragon
from policy.systems.dragonchoices import Idle
from policy.systems.drs import Drs
from policy.systems.fleet import room_after
from policy.systems.kod2 import Kod2
from tests.builders import (
    START,
    Bind,
    BindDone,
    BindDropped,
    BindHeld,
    BindRefused,
    BindUnknown,
    JobGone,
    JobSeen,
    Led,
    NodeGone,
    NodeNotOffered,
    NodeSeen,
    PodGone,
    PodSeen,
    Rules,
    State,
    Synced,
    Tick,
    guest,
    job,
    members,
    node,
)  # fmt: skip

pytestmark = pytest.mark.timeout(300)  # each property test makes a hundred runs of forty steps

NODES = ("n1", "n2", "n3")
JOBS = ("a", "b", "c", "d")
RULES = Rules(gangs_at_once=2, largest_gang=12)
LONGEST_PARTIAL = RULES.window_seconds + RULES.repair_seconds + RULES.plan_seconds + RULES.freeing_seconds


@dataclass(slots=True)  # with slots the field `name` can replace the base class's property
class Restless(Policy):
    """A system that also moves, on request, one of the running gangs to nodes where it has no member."""

    beneath: Policy
    name: str = "restless"
    wish: int | None = None

    @property
    def base(self) -> Policy:
        return self.beneath.base

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        decision, wish, self.wish = self.beneath.decide(snapshot, now), self.wish, None
        resized = {action.job_uid for action in decision.actions if isinstance(action, Resize)}
        still = [this for this in snapshot.running() if self._still(snapshot, this) and this.uid not in resized]
        if wish is None or not still:
            return decision
        this = still[wish % len(still)]
        gang = snapshot.gang(this.uid)
        room = room_after(snapshot, decision.actions).but(gang.nodes.values())
        nodes = place(room, ask_of(snapshot, this, gang.workers))
        if nodes is None:
            return decision
        return replace(decision, actions=(*decision.actions, Migrate(this.uid, nodes)))

    @staticmethod
    def _still(snapshot: Snapshot, this: Job) -> bool:
        return queued(this) and snapshot.gang(this.uid).state is State.RUNNING


@dataclass
class Pausing(Policy):
    """A system that takes the room of some jobs away, and hides these jobs from the system that it wraps."""

    inner: Restless
    paused: frozenset[str] = frozenset()
    name: str = "pausing"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        made = self.inner.decide(snapshot, now)
        pauses = [Resize(uid, 0) for uid in sorted(self.paused) if snapshot.gang(uid).admitted]
        kept = () if any(self._touches(action) for action in made.actions) else made.actions
        waiting = {uid: Verdict(Reason.PAUSED) for uid in self.paused if uid in snapshot.jobs}
        return Decision((*pauses, *kept), {**made.verdicts, **waiting})

    def _touches(self, action: Action) -> bool:
        return isinstance(action, Admit | Resize | Migrate) and action.job_uid in self.paused


class Cluster(RuleBasedStateMachine):
    """The state machine; ``api`` is the API server's state, which the snapshot learns by events that may lag."""

    system: Policy = Kod2(starve_limit=100.0, cooldown=20.0)

    def __init__(self) -> None:
        super().__init__()
        self.policy = Pausing(Restless(self.system))
        self.now = START
        self.snapshot = Snapshot(rules=RULES)
        self.api_nodes: dict[str, Node] = {}
        self.api_jobs: dict[str, Job] = {}
        self.api_pods: dict[str, Pod] = {}
        self.version = 10
        self.upset = False
        self.partial_since: dict[str, float] = {}
        self.readable: dict[str, Job] = {}

    # -- The methods below are helpers of the rules. ----------------------------------------------

    def do(self, *events: object) -> None:
        self.snapshot, effects = step(self.snapshot, events, self.policy, self.now)  # type: ignore[arg-type]
        assert not (broken := violations(self.snapshot)), broken
        assert not (astray := index_errors(self.snapshot)), astray
        self.carry(effects)

    def carry(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Bind):
                self.answer(effect)

    def answer(self, bind: Bind) -> None:
        """Answer a binding by the pod's name only, so that a failing run can be replayed."""
        known = self.api_pods.get(bind.uid)
        made = known is not None and not known.node
        match hash_of(bind.uid, self.version) % 16:
            case 0:
                self.do(BindRefused(bind.uid, "conflict"))
            case 1:
                if made:
                    self.put(replace(self.api_pods[bind.uid], node=bind.node, plan=bind.plan), tell=False)
                self.do(BindUnknown(bind.uid))
            case 2:
                self.do(BindUnknown(bind.uid))
            case _:
                if made:
                    self.put(replace(self.api_pods[bind.uid], node=bind.node, plan=bind.plan), tell=False)
                if known is not None and self.api_pods[bind.uid].node == bind.node:
                    self.do(BindDone(bind.uid, bind.node))
                    self.do(PodSeen(self.api_pods[bind.uid]))
                else:
                    self.do(BindRefused(bind.uid, "conflict"))

    def put(self, pod: Pod, *, tell: bool = True) -> None:
        self.version += 1
        self.api_pods[pod.uid] = replace(pod, version=self.version)
        if tell:
            self.do(PodSeen(self.api_pods[pod.uid]))

    def put_job(self, made: Job) -> None:
        self.version += 1
        self.api_jobs[made.uid] = replace(made, version=self.version)
        self.do(JobSeen(self.api_jobs[made.uid]))

    def remove(self, uid: str) -> None:
        del self.api_pods[uid]
        self.do(PodGone(uid))

    def some_pod(self, pick: int, *, bound: bool) -> Pod | None:
        pods = [p for p in self.api_pods.values() if p.opted_in and bool(p.node) == bound and not p.ended]
        return pods[pick % len(pods)] if pods else None

    # -- The rules below are what jobs, users, operators, kube-scheduler and controller do. ----------

    @initialize()
    def begin(self) -> None:
        self.api_nodes = {name: node(name) for name in NODES}
        self.do(*(NodeSeen(n) for n in self.api_nodes.values()), Synced())

    @rule(
        name=st.sampled_from(JOBS), least=st.integers(1, 3), extra=st.integers(0, 3), asked=st.integers(0, 3),
        servers=st.integers(0, 2), cpu=st.integers(1, 4), suspends=st.booleans(),
    )  # fmt: skip
    def submit(self, name: str, least: int, extra: int, asked: int, servers: int, cpu: int, suspends: bool) -> None:
        made = job(name).workers(least, least + extra, asked=least + min(asked, extra), cpu=cpu).done()
        if servers:
            made = job(name).ps(servers).workers(least, least + extra, asked=least + min(asked, extra), cpu=cpu).done()
        made = replace(made, uid=f"{made.uid}@{self.version}", arrival=self.now, suspends=suspends)
        if all(other.name != name for other in self.api_jobs.values()):
            self.put_job(made)

    @rule()
    def all_goes_well(self) -> None:
        """Let every component do its work a few times, without which few gangs would ever run."""
        for _ in range(3):
            self.operator()
            self.schedule_all()
            self.controller()
            self.watch_catches_up()
            self.now += 1
            self.do(Tick())

    @rule()
    def operator(self) -> None:
        """Create and delete pods as the training operator and garbage collection do."""
        for uid in [p.uid for p in self.api_pods.values() if p.job_uid and p.job_uid not in self.api_jobs]:
            self.remove(uid)
        for this in list(self.api_jobs.values()):
            wanted = {} if this.finished or this.suspended or this.released else {p.slot: p for p in members(this)}
            there = {p.slot: p for p in self.api_pods.values() if p.job_uid == this.uid}
            for slot, old in there.items():
                if old.terminating or (slot not in wanted and not (this.finished and old.phase is Phase.SUCCEEDED)):
                    self.remove(old.uid)
            for slot, new in wanted.items():
                if slot not in there:
                    self.put(replace(new, uid=f"{new.uid}@{self.version}", since=self.now))

    @rule(pick=st.integers(0, 50), how=st.sampled_from(["planned", "not offered", "elsewhere"]))
    def schedule_one(self, pick: int, how: str) -> None:
        pod = self.some_pod(pick, bound=False)
        if pod is None:
            return
        offer = filter_pod(self.snapshot, pod.uid, NODES)
        if not offer.nodes:
            return
        if how == "not offered":
            self.do(NodeNotOffered(pod.uid, offer.nodes[0]))
        else:
            where = offer.nodes[0] if how == "planned" else NODES[pick % 3]
            self.do(BindHeld(pod.uid, where))

    @rule()
    def schedule_all(self) -> None:
        for uid in sorted(self.api_pods):
            pod = self.api_pods.get(uid)
            if pod is not None and pod.opted_in and not pod.node and not pod.ended:
                offer = filter_pod(self.snapshot, uid, NODES)
                if offer.nodes:
                    self.do(BindHeld(uid, offer.nodes[0]))

    @rule(pick=st.integers(0, 50))
    def scheduler_drops(self, pick: int) -> None:
        pod = self.some_pod(pick, bound=False)
        if pod is not None:
            self.do(BindDropped(pod.uid))

    @rule()
    def watch_catches_up(self) -> None:
        for pod in list(self.api_pods.values()):
            self.do(PodSeen(pod))

    @rule()
    def controller(self) -> None:
        orders = desired(self.snapshot, 500)
        for replicas in orders.replicas:
            this = self.api_jobs.get(replicas.uid)
            if this is not None and this.version == replicas.version:
                # An order is above the maximum only while workers above it are taken one at a time.
                before = this.worker.replicas if this.worker else 0
                assert this.min_workers <= replicas.workers <= max(this.max_workers, before - 1)
                self.put_job(resized(this, replicas.workers))
        for suspension in orders.suspend:
            this = self.api_jobs.get(suspension.uid)
            if this is not None and this.version == suspension.version:
                assert this.suspends
                self.put_job(replace(this, released=suspension.suspend))
        for order in (*orders.release, *orders.evict):
            if order.uid in self.api_pods:
                self.put(replace(self.api_pods[order.uid], terminating=True))

    @rule(pick=st.integers(0, 3))
    def migrate(self, pick: int) -> None:
        self.policy.inner.wish = pick
        self.do(Tick())

    @rule(seconds=st.sampled_from([0.5, 4.0, 9.0, 31.0, 125.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.do(Tick())

    # -- The rules below are faults. -----------------------------------------------------------------

    @rule(pick=st.integers(0, 50), how=st.sampled_from(["going", "gone", Phase.FAILED, Phase.SUCCEEDED, Phase.RUNNING]))
    def pod_changes(self, pick: int, how: str | Phase) -> None:
        pod = self.some_pod(pick, bound=True)
        if pod is None:
            return
        if how == "going":
            self.put(replace(pod, terminating=True))
        elif how == "gone":
            self.remove(pod.uid)
        elif isinstance(how, Phase):
            self.put(replace(pod, phase=how))

    @rule(name=st.sampled_from(NODES), how=st.sampled_from(["lost", "back", "cordoned", "not ready"]))
    def node_changes(self, name: str, how: str) -> None:
        self.version += 1
        if how == "lost":
            self.upset = True
            self.api_nodes.pop(name, None)
            self.do(NodeGone(name))
            return
        self.api_nodes[name] = node(
            name, version=self.version, unschedulable=how == "cordoned", ready=how != "not ready"
        )
        self.do(NodeSeen(self.api_nodes[name]))

    @rule(name=st.sampled_from(NODES), number=st.integers(0, 2))
    def stranger(self, name: str, number: int) -> None:
        self.upset = True
        uid = f"uid-guest-{number}"
        if uid in self.api_pods:
            self.remove(uid)
        else:
            self.put(replace(guest(f"guest-{number}", name, cpu=3), version=1))

    @rule(
        pick=st.integers(0, 3), least=st.integers(1, 4), extra=st.integers(0, 3), workers=st.integers(1, 6),
        servers=st.integers(1, 3),
    )  # fmt: skip
    def user_edits(self, pick: int, least: int, extra: int, workers: int, servers: int) -> None:
        this = self.some_job(pick)
        if this is not None and not this.invalid:
            edited = replace(resized(this, workers), min_workers=least, max_workers=least + extra)
            roles = (replace(role, replicas=servers) if role.name == PS else role for role in edited.roles)
            self.put_job(replace(edited, roles=tuple(roles)))

    @rule(pick=st.integers(0, 3), how=st.sampled_from(["finished", "suspended", "deleting", "invalid", "well", "gone"]))
    def job_changes(self, pick: int, how: str) -> None:
        this = self.some_job(pick)
        if this is None:
            return
        if how == "gone":
            del self.api_jobs[this.uid]
            self.do(JobGone(this.uid))
        elif how == "well":
            self.put_job(replace(self.readable.pop(this.uid, this), suspended=False, invalid=""))
        elif how == "invalid":
            self.readable.setdefault(this.uid, this)
            self.put_job(replace(this, invalid="spec: odd", roles=()))
        else:
            self.put_job(replace(this, **{how: True}))  # type: ignore[arg-type]

    def some_job(self, pick: int) -> Job | None:
        jobs = list(self.api_jobs.values())
        return jobs[pick % len(jobs)] if jobs else None

    @rule(pick=st.integers(0, 3), pauses=st.booleans())
    def schedule_changes(self, pick: int, pauses: bool) -> None:
        this = self.some_job(pick)
        if this is not None:
            others = self.policy.paused - {this.uid}
            self.policy.paused = others | {this.uid} if pauses else others
            self.do(Tick())
            gang = self.snapshot.gang(this.uid)
            assert not (pauses and gang.admitted and self.snapshot.leading)
            # A decision that would also admit another pausing job is dropped whole, so this job would keep waiting.
            free = self.snapshot.leading and queued(this) and gang.admitted_at is None and not others
            # A job that is no longer paused starts, or waits for its pods or for room, but not as paused.
            held = gang.state is State.PAUSED and reason_of(self.snapshot, this).reason is Reason.PAUSED
            assert pauses or not free or not held

    @rule(leading=st.sampled_from([True, True, True, False]))
    def leader_changes(self, leading: bool) -> None:
        self.do(Led(leading))

    @rule(really=st.sampled_from([False, False, True]))
    def restart(self, really: bool) -> None:
        if not really:
            return
        live, self.snapshot = self.snapshot, Snapshot(rules=RULES)
        self.do(*self.facts(), Synced())
        again = self.snapshot
        assert again.nodes == live.nodes
        assert again.jobs == live.jobs
        if at_rest(live, self.api_pods):
            assert again.pods == live.pods
            assert again.members == live.members
            assert again.strays == live.strays
            assert again.foreign == live.foreign
            assert settled_gangs(again) == settled_gangs(live)

    def facts(self) -> list[object]:
        """Return the facts in the order of the first lists: pods may come before their jobs and nodes."""
        pods = [PodSeen(pod) for pod in self.api_pods.values()]
        return [*pods, *map(JobSeen, self.api_jobs.values()), *map(NodeSeen, self.api_nodes.values())]

    # -- The methods below check invariants. -------------------------------------------------------------

    @precondition(lambda self: not self.upset)
    @invariant()
    def nothing_is_promised_twice(self) -> None:
        assert not (over := promised_beyond(self.snapshot)), over

    @invariant()
    def what_is_remembered_is_what_would_be_worked_out(self) -> None:
        """Compare memoised answers with those of the same snapshot without its memo."""
        fresh = replace(self.snapshot, index=replace(self.snapshot.index, memo=Memo()))
        assert desired(self.snapshot, 500) == desired(fresh, 500)
        for this in self.snapshot.waiting():
            assert reason_of(self.snapshot, this) == reason_of(fresh, this)
        for uid in self.snapshot.pods:
            assert refuse_pod(self.snapshot, self.snapshot.pods[uid]) == refuse_pod(fresh, fresh.pods[uid])

    @invariant()
    def no_gang_stays_half_bound(self) -> None:
        for uid, this in self.snapshot.jobs.items():
            gang = self.snapshot.gang(uid)
            bound = [p for p in self.snapshot.pods_of(uid) if p.holds_room and not p.terminating]
            whole = gang.state in (State.RUNNING, State.PAUSED)
            partial = bound and not whole and queued(this)
            if not (partial and self.snapshot.leading and gang.state is not State.RELEASING):
                self.partial_since.pop(uid, None)
                continue
            since = self.partial_since.setdefault(uid, self.now)
            assert self.now - since <= LONGEST_PARTIAL + 125, f"{this.key} is {gang}"


def at_rest(snapshot: Snapshot, api_pods: dict[str, Pod]) -> bool:
    """Tell whether nothing is under way: each gang waits, runs on its target, or is done, and the watch is current."""
    told = all(snapshot.pods.get(uid) == pod for uid, pod in api_pods.items()) and len(api_pods) == len(snapshot.pods)
    return told and snapshot.leading and all(_rests(snapshot, uid) for uid in snapshot.gangs)


def _rests(snapshot: Snapshot, uid: str) -> bool:
    gang, this = snapshot.gangs[uid], snapshot.jobs[uid]
    if gang.in_flight or this.invalid or this.deleting or this.suspended or this.released:
        return False
    if gang.scaling.grew is False:
        return False  # the pause after a failed growth is forgotten at a restart, after which the gang may grow at once
    if gang.state in (State.WAITING, State.COMPLETED):
        return True
    slots = this.slots(gang.workers)
    pods = [snapshot.member(uid, slot) for slot in slots]
    asked = this.worker.replicas if this.worker else 0
    whole = all(p is not None and p.holds_room and not p.terminating and p.node in snapshot.nodes for p in pods)
    return gang.state is State.RUNNING and whole and asked == gang.workers and gang.least == this.min_workers


def settled_gangs(snapshot: Snapshot) -> dict[str, object]:
    return {
        uid: (gang.state, gang.workers, dict(gang.nodes))
        for uid, gang in snapshot.gangs.items()
        if gang.state is State.RUNNING and set(gang.nodes) <= set(snapshot.members.get(uid, {}))
    }


def resized(this: Job, workers: int) -> Job:
    roles = tuple(replace(role, replicas=workers) if role.name == WORKER else role for role in this.roles)
    return replace(this, roles=roles)


def hash_of(text: str, number: int) -> int:
    return sum(ord(letter) * (place + 1) for place, letter in enumerate(text)) + number * 7


Cluster.TestCase.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestCluster = Cluster.TestCase


class UnderDrs(Cluster):
    """The same state machine under DRS."""

    system = Drs(cooldown=20.0)


class UnderDragon(Cluster):
    """The same state machine under DRAGON, which remembers since when each node's room is idle."""

    system = Dragon(urgent_threshold=20.0, idle_threshold=20.0, idle=Idle.NODE)


FEWER = settings(Cluster.TestCase.settings, max_examples=40)
UnderDrs.TestCase.settings = UnderDragon.TestCase.settings = FEWER
TestUnderDrs, TestUnderDragon = UnderDrs.TestCase, UnderDragon.TestCase
