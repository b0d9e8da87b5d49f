"""Check the rules (listed in tests/simulation/__init__.py) from the state of the embedded API alone.

For rules about the ledger itself (S2b, S9), its snapshot is compared with that state; nothing else is taken from the
ledger.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from extender.kube.api import CONFIGMAPS, LEASES, NODES, PODS, Done, Outcome, Ref
from extender.kube.jobkinds import (
    PLAN,
)
from extender.kube.jobobjects import identity
from lab.embedded.bridge import JOBS
from lab.sim.objects import KOHORT, JobObject, PodObject, Verb, WorkloadKind, WorldChange
from lab.sim.pods.world import SimulatedWorld
from lab.virtual.clocks import loop_time
from policy.cluster.events import Event, PodGone
from policy.cluster.job import Slot
from policy.cluster.pod import Phase
from policy.cluster.resources import total
from tests.simulation.cooling import CoolDown
from tests.simulation.faults import RunLog
from tests.simulation.leases import Leases
from tests.simulation.memory import Remembered
from tests.simulation.network import ApiLine, WriteWatcher, leader_of
from tests.simulation.numbers import Numbers, slot_of
from tests.simulation.past import STALE, Past, any_goes, broken, complete, over, refused
from tests.simulation.shown import HeardRefusals, taken_before
from tests.simulation.writes import Writes, unsigned

if TYPE_CHECKING:
    from tests.simulation.bare import BarePods
    from tests.simulation.processes import ExtenderProcess

# A job may change its size back and forth this many times: two such changes occur under constant load, and in the calm
# jobs still arrive and end.
# jobs still arrive and end.
MOST_TURNS: Final = 3
_COUNTED: Final = re.compile("replicas|parallelism")
LATE: Final = 1.0  # A step must have handled a deadline this many seconds after its end.
# No plan and no back-off may end more than this many seconds from now; the longest is that of a growth, 16 times 60 s.
FARTHEST: Final = 1200.0
# Without faults, a gang may be partly bound for this many seconds: barrier window, repair and release together.
PARTIAL_CALM: Final = 60.0
# A wrong condition of a bound pod must be right this many seconds after the last fault, when all parts are ready.
WRONG_CALM: Final = 45.0
PARTIAL_STORM: Final = 240.0
OURS: Final = ("extender", "controller")


class Witness(WriteWatcher):
    """Checks the rules and collects violations; ``calm_since`` is the time since which there are no faults."""

    def __init__(self, world: SimulatedWorld, run_log: RunLog) -> None:
        self.world = world
        self.violations: list[str] = []
        self.calm_since: float | None = None
        self.extenders: Sequence[ExtenderProcess] = ()
        # a function that returns the replica that the Lease names; None if there is no Lease
        self.lease: Callable[[], str] | None = None
        self.bare: BarePods | None = None
        self.leases: Leases | None = None  # checks the extenders' own Lease; None if they do not elect their leader
        self.bound_on: dict[str, str] = {}  # UID of every pod that was ever bound -> node
        # UID of every pod that was ever bound -> replica, incarnation of its extender, node
        self.bound_by: dict[str, tuple[str, int, str]] = {}
        self.flying: dict[str, str] = {}
        # extender's name -> the jobs whose deadline was over at its last step
        self._ended: dict[str, set[str]] = defaultdict(set)
        # node -> the last time at which other clients or faults changed its room
        self.foreign_at: dict[str, float] = defaultdict(lambda: -1e9)
        self._slots: dict[str, tuple[str, Slot | None]] = {}
        self.gangs_bound: set[str] = set()
        self.writes: Counter[str] = Counter()
        self.compared = 0
        self.early = False  # whether the setting barrier.commit is "first"
        self._gone: dict[str, tuple[float, str]] = {}  # UID of a deleted pod -> the time of its deletion, and its gang
        self.misreported = 0  # number of pods that were seen bound with the condition PodScheduled=False
        self._wrong: dict[str, float] = {}  # UID of a pod whose condition is wrong -> the time since which it is wrong
        self.unasked = 0  # number of bindings of members without a bind call of their own
        self._past: dict[str, Past] = defaultdict(Past)
        self.judge = Writes(world, self._past, self.violated)
        self.cooling = CoolDown(lambda what: self.violated("S3", what))
        self.heard = HeardRefusals(lambda what: self.violated("S18", what))
        self.numbers = Numbers(world, lambda what: self.violated("L8", what))
        self._run_log = run_log
        # replica and incarnation -> pod's UID -> the version of the pod that its ledger had last
        self._versions: dict[tuple[str, int], dict[str, int]] = {}
        # kind and direction, such as "Deployment-shrunk" -> the UIDs of the jobs that were resized
        self.resized: dict[str, set[str]] = defaultdict(set)
        self.other_ps = 0  # number of jobs that continued with another number of ps
        self.jumped = False  # whether a wall clock was set in this run
        self.memory = Remembered(lambda what: self.violated("S9", what), lambda: self.jumped)

    def violated(self, rule: str, what: str) -> None:
        """Record a violation of a rule, unless the same text is recorded already."""
        text = f"{rule}: {what}"
        if text not in self.violations:
            self.violations.append(text)
            self._run_log.add(f"VIOLATION {text}")

    # -- The methods below check each change of the cluster's state. --------------------------------

    def see(self, now: float, changes: list[WorldChange]) -> None:
        """Check the changes of the world at one instant."""
        nodes: set[str] = set()
        jobs: set[str] = set()
        for change in changes:
            found = change.object
            if isinstance(found, PodObject):
                jobs.add(found.owner)
                self._slots[found.uid] = found.owner, found.slot
                if self.early and change.verb is Verb.DELETED:
                    self._gone[found.uid] = loop_time(), self._gang_of(found)
                if found.node:
                    if self.bare is not None:
                        self.bare.bound_until[found.uid] = loop_time()
                    if found.uid not in self.bound_on:
                        # The node is not checked, because a node that was made smaller under its pods may stay too full
                        # for long.
                        nodes.add(found.node)
                    self._pod_bound(found, change.verb)
            elif isinstance(found, JobObject):
                jobs.add(found.uid)
                self._job_changed(found)
            else:
                self.foreign_at[found.name] = loop_time()
        for name in nodes:
            self._check_room(name)
        for uid in sorted(jobs):
            self._check_gang(uid)

    def _pod_bound(self, pod: PodObject, verb: Verb) -> None:
        first = self.bound_on.setdefault(pod.uid, pod.node)
        if first != pod.node:
            self.violated("S7", f"pod {pod.key} was bound to {first} and then to {pod.node}")
        owner = self.world.store.jobs.get(pod.owner)
        ours = PLAN in pod.annotations
        past = self._past[pod.owner]
        past.begun_by_others = past.begun_by_others or not ours
        if (
            verb is not Verb.DELETED
            and owner is not None
            and pod.holds_room
            and ours
            and (refused(owner) and not past.begun_by_others)
        ):
            self.violated("S5", f"{pod.key} is bound although its job was refused for good")
        if pod.scheduler != KOHORT or not ours:
            self.foreign_at[pod.node] = loop_time()
        if verb is Verb.DELETED or pod.deleted is not None or pod.phase is Phase.FAILED:
            past.lost_at = loop_time()

    def _job_changed(self, job: JobObject) -> None:
        past = self._past[job.uid]
        if not job.spec.kind.ends:
            self.memory.unkept.add(job.uid)
        self.memory.see(job, excepted=past.begun_by_others or broken(job) or not job.spec.kind.ends)
        if job.stopped or job.phase.ended:
            past.suspended_at = loop_time()
        if not past.minimums or past.minimums[-1][1] != job.spec.min_workers:
            past.minimums.append((loop_time(), job.spec.min_workers))

    def _check_room(self, name: str) -> None:
        """Check S2a: no node's pods request more than the node has, unless another scheduler or a change of the node is
        the cause.
        """
        node = self.world.store.nodes.get(name)
        if node is None or loop_time() - self.foreign_at[name] < STALE:
            return
        used = total(pod.requests for pod in self.world.store.pods.values() if pod.node == name and pod.holds_room)
        if not used.fits(node.allocatable):
            self.violated("S2a", f"node {name} holds {used} of {node.allocatable}")

    # -- The methods below check S1: no gang stays partly bound. ---------------------------------

    def bound(self, uid: str) -> set[Slot]:
        """Return the slots of the job whose pod is bound and not terminating, or whose index is completed."""
        nodes = self.world.store.nodes
        return {
            pod.slot
            for pod in self.world.store.pods_of(uid)
            if pod.slot is not None
            and (pod.phase is Phase.SUCCEEDED or (pod.holds_room and pod.deleted is None and pod.node in nodes))
        } | over(self.world.store.jobs.get(uid))

    def _check_gang(self, uid: str) -> None:
        past, job, now = self._past[uid], self.world.store.jobs.get(uid), loop_time()
        holds = self._holds_room(uid)
        if holds or past.holds:
            past.held_until = now
        past.holds = holds
        if job is None or job.phase.ended or job.stopped or broken(job):
            past.partial_since = past.whole_since = past.unnumbered_since = None
            return
        if job.spec.kind is WorkloadKind.DEPLOYMENT:
            past.unnumbered_since = None if self.numbers.is_numbered(job) else past.unnumbered_since or now
        slots = self.bound(uid)
        reached = complete(job, slots, job.spec.min_workers)
        if reached:
            past.least = job.spec.min_workers
            self.gangs_bound.add(uid)
        least = job.spec.min_workers if past.least is None else min(past.least, job.spec.min_workers)
        whole = complete(job, slots, least)
        # The present minimum counts, because a restarted process does not know that a lower minimum was once reached.
        past.whole_since = (past.whole_since or now) if reached else None
        # If only a succeeded member is left, the gang is not partly bound, because it holds no room that others need.
        partial = slots and holds and not whole
        # While a member is terminating, the time does not count; after that its successor has the whole time limit.
        going = any_goes(self.world.store.pods_of(uid), self.world.store.nodes)
        began = now if going or past.going else past.partial_since or now
        past.partial_since, past.going = began if partial else None, going

    def _holds_room(self, uid: str) -> bool:
        """Tell whether a member of the job holds room; a terminating member does, too."""
        return any(pod.holds_room for pod in self.world.store.pods_of(uid))

    def check_time(self) -> None:
        """Check the rules that are broken if something does not happen in time; call this about every second."""
        now = loop_time()
        if self.early:
            self._check_conditions(now)
        self.numbers.check_known(self.extenders, self.calm_since, now)
        for uid, past in self._past.items():
            job = self.world.store.jobs.get(uid)
            self.numbers.check(job, past, self.calm_since, now)
            if past.partial_since is None or job is None:
                continue
            going = any_goes(self.world.store.pods_of(uid), self.world.store.nodes)
            if going or past.going:
                past.partial_since, past.going = now, going
                continue
            since = past.partial_since
            longest = PARTIAL_STORM
            if self.calm_since is not None:
                since, longest = max(since, self.calm_since), PARTIAL_CALM
            if now - since > longest:
                bound = ", ".join(sorted(map(str, self.bound(uid))))
                self.violated("S1", f"{job.key} is partly bound for {longest:g} s: {bound}")
                past.partial_since = now

    def _check_conditions(self, now: float) -> None:
        """Check L11 in the calm: no bound pod's condition PodScheduled stays False."""
        wrong = [
            pod.uid
            for pod in self.world.store.pods.values()
            if pod.holds_room and pod.deleted is None and pod.scheduler == KOHORT
            and pod.scheduled is not None and not pod.scheduled.status
        ]  # fmt: skip
        self.misreported += len(wrong) - len(self._wrong.keys() & wrong)
        self._wrong = {uid: self._wrong.get(uid, now) for uid in wrong}
        for uid, since in self._wrong.items():
            if self.calm_since is not None and now - max(since, self.calm_since) > WRONG_CALM:
                self.violated("L11", f"{self.world.store.pods[uid].key} is bound, and PodScheduled is False")

    def partial(self) -> list[str]:
        """Return the jobs that are partly bound now."""
        return [uid for uid, past in self._past.items() if past.partial_since is not None]

    # -- The methods below check Kohort's own writes. --------------------------------------------

    def holder(self) -> str | None:
        return self.lease() if self.lease is not None else None

    def sent(self, line: ApiLine, verb: str, ref: Ref, content: Mapping[str, Any]) -> None:
        who = line.who
        if who not in OURS:
            return
        self._check_leads(line, verb, ref, content)
        if who == "extender" and verb == "bind":
            self.flying[content["uid"]] = content["node"]
            self._check_plan(line, content["uid"], content["node"])
            self._check_commit(line, content["uid"])
            self._check_shown(line, content["uid"], content["node"])
        self.writes[f"{who} {verb}"] += 1
        self._run_log.add(f"{who} of {line.replica} {verb} {ref.name} {_short(content)}")

    def _check_leads(self, line: ApiLine, verb: str, ref: Ref, content: Mapping[str, Any]) -> None:
        """Check S8: only the replica that the Lease names writes; bindings of foreign pods are exempt."""
        pod = self.world.store.pod_named(ref.namespace, ref.name) if ref.resource == PODS else None
        if self.lease is None or (pod is not None and pod.scheduler != KOHORT):
            return
        if line.woke_in_write and leader_of(content):
            # The process did not know that it had been paused when it sent the write, so the API server must refuse the
            # write.
            return
        if ref.resource == CONFIGMAPS and line.woke_now:
            # The gate's ConfigMap is read before it is written, and its write has no precondition by which the API
            # server could refuse it.
            return
        if (holder := self.lease()) != line.replica:
            self.violated("S8", f"{line.who} of {line.replica} {verb} {ref.name}; the Lease names {holder or 'nobody'}")

    def _extender_of(self, line: ApiLine) -> ExtenderProcess | None:
        return next((found for found in self.extenders if found.replica == line.replica), None)

    def _check_plan(self, line: ApiLine, uid: str, node: str) -> None:
        """Check S11: a member is bound to the node that its replica's ledger has for it."""
        extender = self._extender_of(line)
        snapshot = extender.live.ledger.snapshot if extender is not None else None
        pod = snapshot.pods.get(uid) if snapshot is not None else None
        if snapshot is None or pod is None or pod.job_uid not in snapshot.gangs:
            return  # The ledger no longer knows the pod; it decided on the binding before the pod was gone.
        gang = snapshot.gang(pod.job_uid)
        planned = pod.node or gang.in_flight.get(uid) or (gang.nodes.get(pod.slot) if pod.slot is not None else None)
        if planned != node:
            self.violated("S11", f"{pod.name} is sent to {node}, and its plan has {planned or 'no node'} for it")

    def _check_shown(self, line: ApiLine, uid: str, node: str) -> None:
        """Check S17: no member is bound into room that the process's own watch has shown as occupied."""
        extender = self._extender_of(line)
        snapshot = extender.live.ledger.snapshot if extender is not None else None
        pod = snapshot.pods.get(uid) if snapshot is not None else None
        if snapshot is None or pod is None or not pod.job_uid:
            return  # The ledger no longer knows the pod, or the pod is another scheduler's.
        if why := taken_before(snapshot, uid, node):
            self.violated("S17", f"{pod.name} is sent to {node}, {why}")

    def _check_commit(self, line: ApiLine, uid: str) -> None:
        """Check S1: a gang's first binding is sent only when its minimum has passed kube-scheduler's checks."""
        pod = self.world.store.pods.get(uid)
        job = self.world.store.jobs.get(pod.owner) if pod is not None else None
        extender = self._extender_of(line)
        if pod is None or extender is None:
            return
        asked = {other for other, calls in extender.binding.items() if calls}
        self.unasked += uid not in asked
        asked |= {uid, *(self._siblings(pod, asked) if self.early else ())}
        if not pod.owner:
            self._check_bare(pod, asked)
        if job is None or pod.slot is None:
            return
        past, now = self._past[job.uid], loop_time()
        if self._holds_room(job.uid):
            past.held_until = now
        slots = self.bound(job.uid)
        # Pods that are gone count, too, if no process can have seen yet that they are gone.
        for other in asked & self._slots.keys():
            owner, slot = self._slots[other]
            if owner == job.uid and slot is not None:
                slots.add(slot)
        if any(complete(job, slots, minimum) for minimum in self._minimums(past, now)):
            past.committed = now
        elif min(now, line.blind_since) - max(past.held_until, past.committed) > STALE:
            # A process whose list of pods fails again and again knows nothing of what came after its last watch.
            missing = ", ".join(str(s) for s in job.spec.slots if s not in slots)
            self.violated("S1", f"{job.key}: {pod.name} is sent to its node although {missing} did not ask to be bound")

    def _siblings(self, pod: PodObject, asked: set[str]) -> set[str]:
        """Return the UIDs of the pods of a gang that may be bound because one of them has a bind call
        (``barrier.commit: first``).

        No member may name a volume, and gated pods are left out. A pod that is gone counts for as long as a process may
        not have seen that.
        """
        family = [one for one in self.world.store.pods.values() if self._gang_of(one) == self._gang_of(pod)]
        gone = {uid: at for uid, (at, gang) in self._gone.items() if gang == self._gang_of(pod)}
        if any(one.volumes for one in family) or asked.isdisjoint({one.uid for one in family} | gone.keys()):
            return set()
        lately = {uid for uid, at in gone.items() if loop_time() - at <= STALE}
        return lately | {one.uid for one in family if not one.gates}

    def _gang_of(self, pod: PodObject) -> str:
        """Return a name that all members of the pod's gang have in common, and that no other pod has."""
        return pod.owner or (self.bare.group_of(pod) if self.bare is not None else "") or pod.uid

    def _check_bare(self, pod: PodObject, asked: set[str]) -> None:
        if self.bare is not None and (why := self.bare.too_few(pod, asked)):
            self.violated("S1", f"{pod.name} is sent to its node although {why}")

    def _minimums(self, past: Past, now: float) -> set[int]:
        """Return the minimums of the job's workers that processes may use, the present one and recent ones."""
        found = set()
        for index, (_, minimum) in enumerate(past.minimums):
            ends = past.minimums[index + 1][0] if index + 1 < len(past.minimums) else now
            if now - ends <= STALE:
                found.add(minimum)
        return found

    def arrives(self, line: ApiLine, verb: str, ref: Ref, content: Mapping[str, Any]) -> None:
        who = line.who
        if who not in OURS:
            return
        content = unsigned(content)
        if ref.resource == PODS:
            self.judge.to_pod(who, verb, ref, content)
        elif ref.resource in JOBS:
            self.judge.to_job(who, verb, ref, content)
        elif ref.resource == NODES:
            self.judge.to_node(who, verb, ref, content)
        elif ref.resource == LEASES and who == "extender" and self.leases is not None:
            self.leases.judge(line.replica, content)
        elif ref.resource != CONFIGMAPS:
            self.violated("S12", f"{who} writes {ref}")

    def applied(self, line: ApiLine, verb: str, ref: Ref, content: Mapping[str, Any], outcome: Outcome) -> None:
        if not isinstance(outcome, Done):
            return
        if line.who == "extender" and verb == "bind":
            incarnation = next(e.incarnation for e in self.extenders if e.replica == line.replica)
            self.bound_by[content["uid"]] = (line.replica, incarnation, content["node"])
        if line.who == "extender" and ref.resource == LEASES and self.leases is not None:
            self.leases.written()
        if line.who == "controller" and ref.resource in JOBS:
            self.other_ps += {"tfReplicaSpecs", "runPolicy"} <= content.get("patch", {}).get("spec", {}).keys()
            job = self.world.store.job_named(ref.namespace, ref.name)
            if job is not None:
                past = self._past[job.uid]
                self._check_cool_down(line, job, past, content)
                if not self.bound(job.uid):
                    # The job does not run: its plan was given up and made again, which is no resize.
                    past.turns.clear()
                elif job.spec.workers != past.asked and _COUNTED.search(str(content.get("patch"))):
                    way = "shrunk" if job.spec.workers < past.asked else "grown"
                    self.resized[f"{job.spec.kind.value}-{way}"].add(job.uid)
                past.turns.append((loop_time(), job.spec.workers))

    def _check_cool_down(self, line: ApiLine, job: JobObject, past: Past, content: Mapping[str, Any]) -> None:
        extender = self._extender_of(line)
        if extender is not None and job.spec.workers != past.asked and _COUNTED.search(str(content.get("patch"))):
            process, uid = (extender.replica, extender.incarnation), identity(job.spec.namespace, job.uid)
            self.cooling.written(process, uid, job, past.asked, past.whole_since, loop_time())

    def answered(self, uid: str, node: str, error: str) -> None:
        """Check S7: a bind call is answered with success only if the pod is bound to that node."""
        if not error and self.bound_on.get(uid) != node:
            self.violated("S7", f"bind of {uid} to {node} was answered with success; it is on {self.bound_on.get(uid)}")

    # -- The methods below check the ledger. -----------------------------------------------------

    def check_ledger(self, extender: ExtenderProcess) -> None:
        """Check S2b: the room of each binding of this process is charged from its sending until the process sees the
        pod gone.
        """
        snapshot = extender.live.ledger.snapshot
        for uid, (replica, incarnation, node) in list(self.bound_by.items()):
            if replica != extender.replica:
                continue
            pod = self.world.store.pods.get(uid)
            if incarnation != extender.incarnation or pod is None or not pod.holds_room:
                del self.bound_by[uid]
                continue
            known = snapshot.pods.get(uid)
            if known is not None and known.node == node and known.holds_room:
                continue
            job_uid = identity(pod.namespace, pod.owner)
            parts = snapshot.charges.get(job_uid, {})
            # A process that has been paused since the binding may know the pod by a slot that the pod no longer has.
            charged = [parts.get(part) for part in (uid, slot_of(pod), known.slot if known is not None else None)]
            if not any(found is not None and found[0] == node for found in charged):
                if pod.owner not in self.world.store.jobs:
                    continue  # The job is deleted, and its pods will be deleted, too.
                self.violated("S2b", f"{pod.key} is on {node} and not charged there")

    def check_translator(self, extender: ExtenderProcess) -> None:
        """Check S16: the translator counts no pod as a member, or as a job, that the ledger does not have."""
        ledger, translator = extender.live.ledger, extender.live.translator
        if ledger.dirty:
            return  # The ledger has yet to apply some events of the translator.
        ghosts = (translator._owners._claims.keys() | translator._lone) - ledger.snapshot.pods.keys()
        for uid in sorted(ghosts):
            self.violated("S16", f"the translator has pod {uid}, and the ledger has not")

    def check_deadlines(self, extender: ExtenderProcess) -> None:
        """Check S14: no barrier window and no plan lasts beyond the first step after its end.

        A plan also lasts for as long as the window of its last held bind. No end is farther away than the settings
        allow, even if a wall clock was set.
        """
        ledger = extender.live.ledger
        ended = set[str]()
        before, self._ended[extender.name] = self._ended[extender.name], ended
        if not (ledger.snapshot.leading and ledger.snapshot.synced):
            return
        late = ledger.now() - LATE
        for gang in ledger.snapshot.gangs.values():
            if (away := max(*gang.moments, gang.hold_ends or 0.0) - ledger.now()) > FARTHEST:
                self.violated("S14", f"{gang.job_uid} is to wait for {away:.0f} s")
            window = gang.window_ends is not None and gang.window_ends < late
            if gang.deadline is not None and gang.deadline.at < late and not gang.held:
                ended.add(gang.job_uid)
            if window or gang.job_uid in before & ended:
                self.violated("S14", f"the {'window' if window else 'plan'} of {gang.job_uid} has ended, and is kept")

    def taken(self, who: str, events: Sequence[Event]) -> None:
        """Check S6: a process treats a pod as deleted only if the pod is deleted."""
        for event in events:
            if isinstance(event, PodGone) and (pod := self.world.store.pods.get(event.uid)) is not None:
                self.violated("S6", f"{pod.key} was gone for the {who} while it was there")

    def check_order(self, extender: ExtenderProcess) -> None:
        """Check S6: a process never replaces a pod in its ledger by an older version of the pod."""
        seen = self._versions.setdefault((extender.replica, extender.incarnation), {})
        for uid, pod in extender.live.ledger.snapshot.pods.items():
            if pod.version < seen.get(uid, 0):
                self.violated("S6", f"the {extender.name} knew {pod.name} at {seen[uid]}, and now at {pod.version}")
            seen[uid] = pod.version

    # -- The method below is called at the end of a run. -----------------------------------------

    def turns(self, since: float) -> None:
        """Check L3: in the calm no running job is resized back and forth; OASiS's schedules are exempt.

        ``since`` is the loop's time at which the last fault ended.
        """
        if self.judge.policy == "oasis":
            return
        for uid, past in self._past.items():
            sizes = [workers for at, workers in past.turns if at >= since]
            steps = [after - before for before, after in pairwise(sizes) if after != before]
            turned = sum(1 for one, two in pairwise(steps) if (one > 0) is not (two > 0))
            if turned > MOST_TURNS:
                job = self.world.store.jobs.get(uid)
                self.violated("L3", f"{job.key if job else uid} was resized {sizes} in the calm")


def _short(content: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in content.items() if value)[:160]
