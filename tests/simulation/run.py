"""Run one scenario: the storm, in which faults occur, and then the calm without faults, in which every rule must come
to hold.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import math
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Set
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Final

import msgspec

from extender.kube.api import DEPLOYMENTS, LEASES, NODES, PODS, Json, Ref
from extender.kube.jobkinds import SLOT
from extender.kube.podgroupkinds import COSCHEDULING, GROUP, group_named
from extender.kube.translate import Translator
from extender.state.journal import Journal
from extender.state.ledger import Ledger
from extender.state.rules import policy_of
from lab.embedded.bridge import JOBS
from lab.embedded.embeddedcluster import EmbeddedCluster
from lab.sim.invariants import bound_into_taken, violations
from lab.sim.objects import JobObject, WorkloadKind
from lab.sim.pods.world import SimulatedWorld
from lab.virtual.clocks import SimLoop, loop_time, sleep
from policy.cluster.actions import Admit, Effect, Migrate, Reject, Released, Resize
from policy.cluster.events import Event, Led, Synced
from policy.cluster.gang import Gang, State
from policy.cluster.job import Job, Slot
from policy.cluster.pod import Pod
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import Snapshot
from tests.simulation.bare import BarePods
from tests.simulation.clocks import ProcessClock
from tests.simulation.decisions import Decisions, marks
from tests.simulation.election import lease_of_scheduler
from tests.simulation.errors import heard
from tests.simulation.faults import LEAST_FAULTS, FaultSource, RunLog
from tests.simulation.leases import Leases
from tests.simulation.network import Crash, nobody_dies
from tests.simulation.others import Others
from tests.simulation.past import broken, refused
from tests.simulation.processes import (
    ControllerProcess,
    ExtenderProcess,
    Replica,
    SchedulerProcess,
    SimulatedProcess,
    Surroundings,
)
from tests.simulation.quotas import QuotaRule
from tests.simulation.scenario import BYSTANDER, Scenario
from tests.simulation.storm import Storm
from tests.simulation.training import Reporting
from tests.simulation.witness import Witness

LOOK: Final = 1.0
# A replica must be ready after this many seconds (L5): a reflector's longest back-off, and reading a page or two.
READY_LIMIT: Final = 45.0
# A binding's outcome must be known after this many seconds. Where the answer was lost, the pod is read after at most 10
# s, and then every 4 s.
FLIGHT_LIMIT: Final = 30.0
# Filter must be called for every member of a gang this many seconds after there is room (L7); kube-scheduler's own
# back-off is 2 s.
WAKE_LIMIT: Final = 12.0
LONGEST_BACKOFF: Final = 30.0  # A reflector waits at most this many seconds before it lists again.
COMPARE_SECONDS: Final = 5.0
LEAST_STEPS: Final = 300
LEAST_GANGS: Final = 8
AFTER_THE_FIRST: Final = 3.0  # A replica that starts this many seconds after the first one finds that one leading.
LOG_SECONDS: Final = 40.0
KINDS: Final = frozenset(kind.value for kind in WorkloadKind)
# The pods of these kinds of jobs have no index in their names.
UNNUMBERED: Final = (WorkloadKind.DEPLOYMENT.value, GROUP)


@dataclass
class SeedReport:
    """The outcome of a run: what happened, and which rules were violated."""

    seed: int
    steps: int = 0
    gangs: int = 0
    jobs: int = 0
    seconds: float = 0.0
    calm: float = 0.0
    compared: int = 0
    policy: str = ""
    # counts of decisions, reports, changes of the leader, and compared annotations
    did: Counter[str] = field(default_factory=Counter)
    digest: str = ""
    marks: tuple[str, ...] = ()  # digests of the decisions (tests/simulation/decisions.py)
    faults: Counter[str] = field(default_factory=Counter)
    writes: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    run_log: list[str] = field(default_factory=list)

    @property
    def decided(self) -> int:
        """Return the number of gangs that were bound plus the number of jobs that were rejected."""
        return self.gangs + self.did["refused"]

    @property
    def failure(self) -> str:
        """Return what is wrong with the run, or ""; a run in which too little happened is wrong, too."""
        if self.violations:
            return "; ".join(self.violations[:3])
        faults = self.faults.total()
        if self.steps < LEAST_STEPS or self.decided < LEAST_GANGS or faults < LEAST_FAULTS:
            return f"too little was done: {self.steps} steps, {self.decided} gangs, {faults} faults"
        return ""

    def replay(self, mutant: str = "") -> str:
        """Return the command that repeats the run."""
        seeded = f" --mutant {mutant}" if mutant else ""
        return f"python -m tests.simulation --seeds 1 --first-seed {self.seed} --jobs 1{seeded}"

    @property
    def line(self) -> str:
        """Return one line of text about the run, with its seed, counts and result."""
        kinds = " ".join(f"{kind}:{count}" for kind, count in sorted(self.faults.items()))
        verdict = f"FAILED {self.failure}" if self.failure else "ok"
        return (
            f"seed {self.seed} {self.policy}: {self.steps} steps, {self.gangs}/{self.jobs} gangs, {self.seconds:.0f} s "
            f"(calm {self.calm:.0f} s), {sum(self.faults.values())} faults [{kinds}] "
            f"did {' '.join(f'{what}:{count}' for what, count in sorted(self.did.items()) if count)} {verdict}"
        )


class Simulation:
    """One run of a scenario.

    ``kinds`` are the kinds of faults that are drawn; ``faults``, if given, are done instead of drawn ones. ``crash``
    decides at which writes processes are killed in addition. If ``impatient``, the run ends at the first violation. It
    ends after ``longest`` seconds in any case.
    """

    def __init__(
        self, scenario: Scenario, *, kinds: tuple[str, ...] | None = None, crash: Crash = nobody_dies,
        faults: Callable[[RunLog], FaultSource] | None = None, impatient: bool = False, longest: float = math.inf,
    ) -> None:  # fmt: skip
        self.scenario = scenario
        self.run_log = RunLog()
        drawn = FaultSource(scenario.seed, self.run_log, kinds, scenario.settings.policy)
        self.faults = faults(self.run_log) if faults is not None else drawn
        self._impatient = impatient
        self._latest = loop_time() + longest
        self.clock = ProcessClock()
        self.cluster = EmbeddedCluster(scenario.trace, self.clock, scenario.seed, scenario.world)
        self.world = self.cluster.world
        self.witness = Witness(self.world, self.run_log)
        self.witness.judge.stored = self._stored
        self.cluster.bridge.observe = self.witness.see
        self.around = Surroundings(
            scenario.seed, self.cluster.server, scenario.settings, self.faults, self.run_log, self.witness, crash
        )
        self.replicas = tuple(self._replica(name) for name in scenario.replicas)
        self.witness.extenders = [replica.extender for replica in self.replicas]
        self.witness.numbers.idle = self._is_idle
        self.witness.lease = self._holder if scenario.leased else None
        if scenario.settings.lease.elect:
            self.witness.leases = Leases(lambda: self._stored(self._lease) or {}, self.witness.violated)
        self.witness.judge.policy = scenario.settings.policy
        self.witness.early = scenario.settings.commits_first
        self.witness.cooling.seconds = policy_of(scenario.settings).base.cooldown
        self.training = Reporting(self)
        self.bare = BarePods(self)
        self.witness.bare = self.bare
        self.witness.judge.group_whole_since = self.bare.whole_since
        self.others = Others(self)
        self.quotas = QuotaRule(self.world, self.witness.violated, lambda uid: self.others.denies(uid, "resize"))
        self.storm = Storm(self)
        self.deleted = 0  # number of jobs that their users have deleted
        # further events of the scenario: (seconds, function of the world)
        self.acts: tuple[tuple[float, Callable[[SimulatedWorld], object]], ...] = ()
        self._background: list[asyncio.Task[None]] = []
        self.did = Counter[str]()
        self._calls = random.Random(f"service {scenario.seed}")
        self._led = ""  # the replica that led at the last check
        self.led_first = ""
        self._steps = 0  # number of steps of all ledgers
        self._asked = 0  # number of calls of verbs
        self._compare_after = 0.0
        self._last_filter: dict[str, float] = {}
        self._digest = hashlib.sha256()
        self.decisions = Decisions()
        # resourceVersion, which no two objects share -> the events that the translator made of that object
        self._read: dict[str, list[Event]] = {}
        self._flying: dict[str, float] = {}  # pod's UID -> the time since which its binding is in flight
        # (job's UID, plan) -> the time since which kube-scheduler may schedule the plan's members
        self._planned: dict[tuple[str, str], float] = {}
        for replica in self.replicas:
            self._instrument(replica.extender)

    def _replica(self, name: str) -> Replica:
        extender = ExtenderProcess(name, self.around, self._stepped)
        controller = ControllerProcess(self.around, extender)
        elects = self.scenario.settings.lease.elect
        service = self._service if elects else lambda: extender
        scheduler = SchedulerProcess(self.around, name, self.scenario.scheduler, service)
        return Replica(name, extender, controller, scheduler)

    def _service(self) -> ExtenderProcess:
        """Return the extender that a call to the Service reaches: a ready one (the leader), or any extender if none is
        ready.
        """
        extenders = [replica.extender for replica in self.replicas]
        return self._calls.choice([extender for extender in extenders if extender.leads] or extenders)

    @property
    def processes(self) -> tuple[SimulatedProcess, ...]:
        """Return all processes, replica by replica."""
        return tuple(process for replica in self.replicas for process in replica.processes)

    @property
    def leader(self) -> Replica:
        """Return the replica whose ledger makes decisions, or the first replica if there is none."""
        return next((replica for replica in self.replicas if replica.extender.leads), self.replicas[0])

    @property
    def extender(self) -> ExtenderProcess:
        """Return the leader's extender."""
        return self.leader.extender

    def _stored(self, ref: Ref) -> Json | None:
        return self.cluster.server.store.get(ref.resource, ref.namespace, ref.name)

    def _instrument(self, extender: ExtenderProcess) -> None:
        """Make the extender record the bind calls that it is answering, and its answers."""
        serve, witness = extender._answer, self.witness

        async def noted(
            verb: str, body: bytes, hung_up: asyncio.Event, delay: float, live: Any, clock: ProcessClock
        ) -> bytes:
            self._asked += 1
            if verb != "bind":
                if verb == "filter":
                    self._filtered(body)
                return await serve(verb, body, hung_up, delay, live, clock)
            args = msgspec.json.decode(body)
            if delay:
                await sleep(delay)
            calls = extender.binding.setdefault(args["PodUID"], [])
            calls.append(args["Node"])
            line, began = extender.line, loop_time()
            try:
                answer = await serve(verb, body, hung_up, 0.0, live, clock)
            finally:
                calls.remove(args["Node"])
            if not line.dead:
                witness.answered(args["PodUID"], args["Node"], msgspec.json.decode(answer)["Error"])
                if self._held_too_long(began, clock):
                    witness.violated("S14", f"bind of {args['PodName']} was held for {loop_time() - began:.0f} s")
            return answer

        extender._answer = noted  # type: ignore[method-assign]

    def _held_too_long(self, began: float, clock: ProcessClock) -> bool:
        """Check S14 in the calm: a bind call is answered before kube-scheduler gives up waiting."""
        calm, limit = self.witness.calm_since, self.scenario.settings.barrier.http_timeout_seconds
        return calm is not None and loop_time() - max(began, calm, clock.paused_until) > limit

    def _filtered(self, body: bytes) -> None:
        self._last_filter[msgspec.json.decode(body)["Pod"]["metadata"]["uid"]] = loop_time()

    # -- The methods below see the ledger's steps. -----------------------------------------------

    def _stepped(self, extender: ExtenderProcess, effects: tuple[Effect, ...]) -> None:
        if extender.line.dead:
            return
        snapshot, now = extender.live.ledger.snapshot, loop_time()
        self._steps += 1
        self.decisions.step(now, effects)
        for effect in effects:
            self._count(effect, snapshot)
            self.run_log.add(f"step {extender.replica} {extender.incarnation}.{snapshot.generation}: {effect}")
            line = f"{now:.6f} {extender.replica} {extender.incarnation} {snapshot.generation} {effect!r}\n"
            self._digest.update(line.encode())
        if self._steps % 8 == 0:
            for broken_rule in violations(snapshot):
                self.witness.violated("ledger", broken_rule)
            self.witness.check_order(extender)
        for wrong in bound_into_taken(snapshot, effects):
            self.witness.violated("S17", f"{extender.name}: {wrong}")
        self.witness.cooling.stepped((extender.replica, extender.incarnation), snapshot, effects, now)
        self.witness.heard.stepped(extender)
        self.witness.check_ledger(extender)
        self.witness.check_translator(extender)
        self.witness.check_deadlines(extender)
        self.witness.memory.stepped(extender)

    def _count(self, effect: Effect, snapshot: Snapshot) -> None:
        match effect:
            case Resize() if effect.pauses:
                self.did["pause"] += 1
            case Admit() | Released() | Resize() | Migrate() | Reject():
                self.did[type(effect).__name__.lower()] += 1
                if isinstance(effect, Migrate):
                    self.storm.moves(snapshot.jobs[effect.job_uid].name)
                elif isinstance(effect, Released) and effect.reason is Reason.ROOM_BEING_FREED:
                    self.did["room-late"] += 1
            case _:
                pass

    # -- The methods below run the simulation. ---------------------------------------------------

    async def play(self) -> SeedReport:
        """Run storm and calm; return the report."""
        began = loop_time()
        self.cluster.begin()
        background = self._background
        background += [
            asyncio.create_task(self.cluster.run(), name="cluster-0"),
            asyncio.create_task(self.training.run(), name="training-0"),
        ]
        if self.scenario.leased:
            self._make_lease()
        for replica in self.replicas:
            for process in replica.processes:
                if self.scenario.first in ("", replica.name):
                    process.start()
                else:
                    process.restart_in(AFTER_THE_FIRST)
        for at, act in self.acts:
            asyncio.get_running_loop().call_later(at, self._act, act)
        self.faults.active = True
        await self._storm(self.storm)
        self.faults.active = False
        self.storm.calm()
        self.witness.calm_since = calm = loop_time()
        self.run_log.add("calm")
        try:
            await self._calm(calm)
            self.did["refused"] = sum(1 for job in self.world.store.jobs.values() if self._refused(job))
        finally:
            for process in self.processes:
                process.restart_in(1e9)
                process.kill(restart=False)
            for task in background:
                task.cancel()
        for task in background:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error
        self.did["report"] = self.training.taken
        self.did["schedule"] = self.witness.memory.schedules
        self.did.update(self.witness.memory.texts)
        self.did["other-ps"] = self.witness.other_ps
        self.did.update({what: len(jobs) for what, jobs in self.witness.resized.items()})
        return self._report(began, calm)

    def spawn(self, part: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task that is cancelled when the run ends."""
        self._background.append(asyncio.get_running_loop().create_task(part))

    def _act(self, act: Callable[[SimulatedWorld], object]) -> None:
        def write(world: SimulatedWorld) -> None:
            act(world)

        self.cluster.bridge.do(write)

    async def _storm(self, storm: Storm) -> None:
        """Run the storm for the scenario's time, and for up to twice as long if too few faults have occurred."""
        ends = loop_time() + self.scenario.storm
        latest = ends + self.scenario.storm
        while (left := ends - loop_time()) > 0 or (not self.faults.enough and loop_time() < latest):
            if (self._impatient and self.witness.violations) or loop_time() > self._latest:
                return
            await sleep(self.faults.gap(self.scenario.gap, left))
            storm.inject_faults()
            self.others.end_faults()
            self.bare.act(calm=False)
            self.witness.check_time()
            self.quotas.look(self.leader)
            self._note_failures()

    def _note_failures(self) -> None:
        if self.leader.extender.leads and self.leader.name != self._led:
            whose = "own-fail-over" if self.scenario.settings.lease.elect else "fail-over"
            self.did[whose] += bool(self._led)
            self._led = self.leader.name
            self.led_first = self.led_first or self._led
        for failure in self.around.failures:
            self.witness.violated("crash", failure)

    async def _calm(self, since: float) -> None:
        """Run the calm until all jobs have ended; check each rule once its time limit is over.

        ``since`` is the loop's time of the last fault.
        """
        while True:
            await sleep(LOOK)
            now = loop_time()
            self.bare.act(calm=True)
            self.witness.check_time()
            self._note_failures()
            if now - since > READY_LIMIT:
                self._check_ready()
            if now - since > LONGEST_BACKOFF:
                self._check_awake(now)
            self._check_flights(now)
            self._compare()
            for wrong in self.training.wrong:
                self.witness.violated("S11", f"the report {wrong} was taken")
            if self.witness.violations or (self._over() and now - since > 5.0) or now > self._latest:
                break
            if now - since > self.scenario.longest_calm:
                self._blame()
                break
        self.witness.turns(max(since, self._all_see_since()))

    def _all_see_since(self) -> float:
        """Return the time since which no watch is stalled; a process with a stalled watch acts on outdated state."""
        lines = [process.line for process in self.processes]
        return loop_time() if any(line.stalled for line in lines) else max(line.stalled_until for line in lines)

    def _check_ready(self) -> None:
        """Check L5: all replicas are ready, and exactly one leads."""
        for replica in self.replicas:
            if not replica.extender.ready:
                self.witness.violated(
                    "L5", f"{replica.extender.name} is not ready {READY_LIMIT:g} s after the last fault"
                )
        leading = [replica.name for replica in self.replicas if replica.extender.leads]
        if len(leading) != 1:
            self.witness.violated("L5", f"{leading or 'nobody'} leads {READY_LIMIT:g} s after the last fault")

    def _is_idle(self, name: str) -> bool:
        controller = next(replica.controller for replica in self.replicas if replica.name == name)
        return not controller.up or controller.clock.paused

    def _over(self) -> bool:
        jobs = self.world.store.jobs.values()
        gone = self.deleted + self.training.trained
        ended = all(job.phase.ended or broken(job) or self._refused(job) or self._shows_refusal(job) for job in jobs)
        ended = ended and len(jobs) + gone == len(self.scenario.trace.jobs) and not self.bare.waiting()
        return ended and not any(pod.scheduler == BYSTANDER and not pod.node for pod in self.world.store.pods.values())

    def _refused(self, job: JobObject) -> bool:
        """Tell whether the policy has rejected the job.

        The job's annotation says so; for kinds without the annotation, the ledger does.
        """
        if job.spec.kind.ends or not self.extender.up:
            return refused(job)
        verdict = self.extender.live.ledger.snapshot.verdicts.get(f"{job.spec.namespace}/{job.uid}")
        return verdict is not None and verdict.reason is Reason.REJECTED

    def _shows_refusal(self, job: JobObject) -> bool:
        """Tell whether the job can never run because its writes are refused, and the ledger has the API server's
        message about it.
        """
        return self.extender.up and self.others.shows_refusal(job, self.extender.live.ledger.snapshot)

    def _blame(self) -> None:
        """Report a violation of L1: which jobs did not end, and the ledger's reasons."""
        snapshot = self.extender.live.ledger.snapshot if self.extender.up else Snapshot()
        for job in self.world.store.jobs.values():
            if job.uid == self.others.forever and not (job.phase.ended or self._shows_refusal(job)):
                self.witness.violated("L9", f"{job.key}, whose writes admission refuses for good, is not told why")
            elif not (job.phase.ended or broken(job) or self._refused(job) or self._shows_refusal(job)):
                gang = snapshot.gang(f"{job.spec.namespace}/{job.uid}")
                verdict = snapshot.verdicts.get(gang.job_uid)
                pods = ", ".join(
                    f"{p.slot}@{p.node or '-'}{'!' if p.deleted else ''}" for p in self.world.store.pods_of(job.uid)
                )
                self.witness.violated(
                    "L1", f"{job.key} has not ended {self.scenario.longest_calm:g} s after the last fault: "
                    f"{gang.state.value} {verdict.reason.value if verdict else ''} "
                    f"{verdict.detail if verdict else ''} pods {pods}"
                )  # fmt: skip
        for bare in self.bare.waiting():
            self.witness.violated("L1", f"{bare}: not at its end {self.scenario.longest_calm:g} s after the last fault")
        for pod in self.world.store.pods.values():
            if pod.scheduler == BYSTANDER and not pod.node:
                self.witness.violated("S12", f"{pod.key}, which did not opt in, is not scheduled")
        if not self.witness.violations:
            self.witness.violated("L1", "the run does not end")

    def _check_awake(self, now: float) -> None:
        """Check L7: filter is called soon for the members of a gang that has room."""
        snapshot = self.extender.live.ledger.snapshot if self.extender.up else Snapshot()
        asking = next(
            (replica.scheduler for replica in self.replicas if replica.scheduler.leads), self.leader.scheduler
        )
        current: dict[tuple[str, str], float] = {}
        for uid, gang in snapshot.gangs.items():
            if gang.state is not State.PLANNED or gang.waits_for or self.others.denies(_bare_uid(uid), "gate"):
                continue  # kube-scheduler does not try a gated pod, so it calls no filter for it.
            lines = [process.line for process in (*self.leader.pod, asking)]
            if any(line.stalled for line in lines):
                # A process does not see the room before a stalled watch is given up (50 s), so the time starts after
                # that.
                continue
            seeing = max(line.stalled_until for line in lines) + LONGEST_BACKOFF
            since = max(self._planned.get((uid, gang.plan), now), min(now, seeing))
            current[uid, gang.plan] = since
            late = [
                pod.name
                for pod in snapshot.pods_of(uid)
                if pod.slot in gang.nodes and not pod.node and pod.uid not in gang.held
                and self._last_filter.get(pod.uid, 0.0) < since - 1.0
            ]  # fmt: skip
            if late and now - since > WAKE_LIMIT:
                self.witness.violated("L7", f"{late} have room since {now - since:.0f} s and are not asked about")
        self._planned = current

    def _check_flights(self, now: float) -> None:
        """Check S2b: the outcome of a binding is known within FLIGHT_LIMIT seconds, so that no room stays charged for a
        binding that was never made.
        """
        # A process that is stopped or paused cannot read the pod.
        asks = self.extender.up and not self.extender.clock.paused
        gangs = self.extender.live.ledger.snapshot.gangs.values() if asks else ()
        flying = [uid for gang in gangs for uid in gang.in_flight]
        self._flying = {uid: self._flying.get(uid, now) for uid in flying}
        for uid, since in self._flying.items():
            if now - since > FLIGHT_LIMIT:
                self.witness.violated("S2b", f"room is taken for a binding of {uid} since {now - since:.0f} s")

    # -- The methods below check S9: the leader's ledger equals one that is built from the API alone. --

    def _compare(self) -> None:
        """Check S9: while nothing is under way, the leader's ledger equals one that is built from the API alone."""
        if loop_time() < self._compare_after:
            return
        for replica in self.replicas:
            if replica.extender.ready:
                self._compare_one(replica.extender.live.ledger)

    def _compare_one(self, ledger: Ledger) -> None:
        if ledger.dirty or not self._caught_up(ledger.snapshot):
            return
        fresh = Ledger(ledger.policy, ledger.snapshot.rules, self.clock, Journal())
        fresh.step(Led(False), *self._facts(), Synced())
        self.witness.compared += 1
        self._compare_after = loop_time() + COMPARE_SECONDS
        moving, written = _renumbered(ledger.snapshot) | _renumbered(fresh.snapshot), self._written()
        for name in ("nodes", "jobs", "pods", "members", "strays", "foreign"):
            live, rebuilt = (_comparable(one, name, moving, written) for one in (ledger.snapshot, fresh.snapshot))
            if name == "foreign":
                rebuilt = {node: found for node, found in rebuilt.items() if node not in _vacated(ledger.snapshot)}
            if live != rebuilt:
                keys = sorted(str(k) for k in live.keys() | rebuilt.keys() if live.get(k) != rebuilt.get(k))
                shown = [_apart(live.get(k), rebuilt.get(k)) for k in live.keys() | rebuilt.keys() if str(k) == keys[0]]
                self.witness.violated("S9", f"{name} of {keys[:5]}: {shown}"[:600])
        for uid, job in ledger.snapshot.jobs.items():
            live_gang, found = ledger.snapshot.gang(uid), fresh.snapshot.gang(uid)
            settled = job.worker is None or job.worker.replicas == live_gang.workers
            # A member that has succeeded shows neither where it was nor that its gang was bound.
            settled = settled and all(pod.holds_room for pod in ledger.snapshot.pods_of(uid))
            there = {pod.slot for pod in ledger.snapshot.pods_of(uid) if _bears_its_slot(job.kind, pod, written)}
            if job.kind not in UNNUMBERED:
                there = set(self.witness.bound(uid.partition("/")[2]))
            if live_gang.state is State.RUNNING and settled and set(job.slots(live_gang.workers)) <= there:
                parts = [(g.state, g.workers, _nodes_of(g, job)) for g in (live_gang, found)]
                same = parts[0] == parts[1]
                if not same:
                    shown = [f"{g.state.value} {g.workers} {sorted(g.nodes.items())}" for g in (live_gang, found)]
                    self.witness.violated("S9", f"gang {job.key}: {shown[0]} is rebuilt as {shown[1]}")
            if (live_gang.state is State.COMPLETED) is not (found.state is State.COMPLETED):
                self.witness.violated("S9", f"gang {job.key}: {live_gang.state} is rebuilt as {found.state}")

    def _written(self) -> set[str]:
        """Return the UIDs of pods on which a binding has written a slot; it writes none on a gang of one pod."""
        pods = (item["metadata"] for item in self.cluster.server.store.all(PODS))
        return {pod["uid"] for pod in pods if SLOT in pod.get("annotations", {})}

    def _caught_up(self, snapshot: Snapshot) -> bool:
        """Tell whether the ledger has the newest version of every object in the API."""
        store = self.cluster.server.store
        pods = {i["metadata"]["uid"]: int(i["metadata"]["resourceVersion"]) for i in store.all(PODS)}
        jobs = {
            f"{i['metadata']['namespace']}/{i['metadata']['uid']}": int(i["metadata"]["resourceVersion"])
            for resource in JOBS
            for i in store.all(resource)
        }
        known = {uid: pod.version for uid, pod in snapshot.pods.items()}
        groups = {uid for uid, job in snapshot.jobs.items() if job.kind == GROUP}
        if known != pods or groups != self.bare.groups():
            return False
        nodes = {i["metadata"]["name"]: int(i["metadata"]["resourceVersion"]) for i in store.all(NODES)}
        return {uid: job.version for uid, job in snapshot.jobs.items() if job.kind in KINDS} == jobs and {
            name: node.version for name, node in snapshot.nodes.items()
        } == nodes

    def _facts(self) -> Iterator[Event]:
        """Yield the events for all objects in the API; events that were made of the same version before are used
        again.
        """
        translator = Translator(self.scenario.settings.scheduler_name)
        # This translator is for objects whose events depend on other objects that it has seen.
        named = Translator(self.scenario.settings.scheduler_name)
        known, self._read = self._read, {}
        for resource in (NODES, PODS, *JOBS, COSCHEDULING.resource):
            for item in self.cluster.server.store.all(resource):
                version = item["metadata"]["resourceVersion"]
                if resource in (DEPLOYMENTS, COSCHEDULING.resource) or _of_family(item):
                    yield from named.events(resource, {"type": "ADDED", "object": item})
                    continue
                found = known.get(version) or translator.events(resource, {"type": "ADDED", "object": item})
                self._read[version] = found
                yield from found

    # -- The methods below make and read the Lease. ----------------------------------------------

    def _make_lease(self) -> None:
        settings = self.scenario.settings.lease
        self._lease = Ref(LEASES, settings.namespace, settings.name)
        for name in dict.fromkeys((settings.name, lease_of_scheduler(settings).name)):
            self.cluster.server.create(LEASES, settings.namespace, {"metadata": {"name": name}, "spec": {}})

    def _holder(self) -> str:
        """Return the replica that the Lease names as its holder, or ""."""
        found = self._stored(self._lease) or {}
        return str((found.get("spec") or {}).get("holderIdentity") or "").partition("_")[0]

    # -- The method below makes the report. ------------------------------------------------------

    def _report(self, began: float, calm: float) -> SeedReport:
        report = SeedReport(self.scenario.seed)
        # The steps reported are the ledgers' steps, the calls of verbs and of the controller, and the writes.
        report.steps = (
            self._steps + self._asked + sum(r.controller.looks for r in self.replicas) + self.witness.writes.total()
        )
        report.gangs = len(self.witness.gangs_bound)
        report.jobs = len(self.scenario.trace.jobs)
        report.seconds, report.calm = loop_time() - began, loop_time() - calm
        report.digest, report.compared = self._digest.hexdigest(), self.witness.compared
        report.marks = marks(self.decisions.lines)
        report.policy, report.did = self.scenario.settings.policy, self.did
        report.faults, report.writes = self.faults.counts, self.witness.writes
        report.violations = list(self.witness.violations)
        if report.violations:
            report.run_log = self.run_log.last(LOG_SECONDS, loop_time())
        return report


def _of_family(item: Json) -> bool:
    """Tell whether the pod's identity depends on other pods: it belongs to a ReplicaSet or a group."""
    owners = item["metadata"].get("ownerReferences", ())
    return group_named(item) is not None or any(owner["kind"] == "ReplicaSet" for owner in owners)


def _renumbered(snapshot: Snapshot) -> set[str]:
    """Return the jobs that have a pod whose slot in the ledger differs from the one written on it."""
    return {pod.job_uid for pod in snapshot.pods.values() if pod.misnumbered}


def _comparable(snapshot: Snapshot, name: str, moving: Set[str], written: Set[str]) -> Mapping[Any, Any]:
    """Return a part of a snapshot, without what may differ in a snapshot that is rebuilt from the API.

    What may differ is above all the slot of a pod of a Deployment or a group. Until its binding writes the slot on the
    pod, the pod has any free slot, by the order in which the pods were seen.
    """
    found: Mapping[Any, Any] = getattr(snapshot, name)
    loose = {uid for uid, job in snapshot.jobs.items() if job.kind in UNNUMBERED}
    # The version of a group is that of its newest pod, even if the pod is gone; so versions are not compared.
    if name == "jobs":
        return {uid: replace(job, version=0) if job.kind == GROUP else job for uid, job in found.items()}
    # A node keeps a victim's room for some seconds after the victim is gone, which no API object shows.
    if name == "foreign":
        return {node: resources for node, resources in found.items() if node not in _vacated(snapshot)}
    if name in ("members", "strays"):
        return {uid: part for uid, part in found.items() if uid not in loose}
    if name != "pods" or not loose:
        return found
    return {
        uid: replace(pod, slot=None)
        if pod.job_uid in moving
        or (pod.job_uid in loose and not _bears_its_slot(snapshot.jobs[pod.job_uid].kind, pod, written))
        else pod
        for uid, pod in found.items()
    }


def _apart(live: object, rebuilt: object) -> str:
    """Return in words how the two values differ; for two objects of the same class, in which fields."""
    if not is_dataclass(live) or type(live) is not type(rebuilt):
        return f"{live} != {rebuilt}"
    pairs = ((field.name, getattr(live, field.name), getattr(rebuilt, field.name)) for field in fields(live))
    return ", ".join(f"{name} {one} != {other}" for name, one, other in pairs if one != other)


def _vacated(snapshot: Snapshot) -> set[str]:
    """Return the nodes on which room is kept for a preemptor after the victim is gone; a rebuilt ledger does not know
    of it.
    """
    return {node for node, promised in snapshot.preemptions.items() if promised.vacated}


def _bare_uid(uid: str) -> str:
    """Return the UID that the job has in the API; the ledger puts the namespace before it."""
    return uid.partition("/")[2]


def _nodes_of(gang: Gang, job: Job) -> dict[Slot, str]:
    """Return the gang's nodes by slot without those of completed indices, whose pods need not exist."""
    return {slot: node for slot, node in gang.nodes.items() if slot not in job.over}


def _bears_its_slot(kind: str, pod: Pod, written: Set[str]) -> bool:
    """Tell whether the pod's name, or an annotation on it, shows its slot."""
    stays = pod.holds_room and not pod.terminating
    if kind == GROUP:
        return stays and pod.uid in written
    return kind != WorkloadKind.DEPLOYMENT.value or (stays and pod.numbered == pod.slot)


def play(make: Callable[[], Simulation]) -> SeedReport:
    """Run one simulation in a virtual event loop of its own, and return its report."""
    gc.disable()  # Garbage collection would take a tenth of the time, and a run leaves little garbage.
    gc.freeze()  # The collector then skips all objects that exist before the run.
    try:
        with asyncio.Runner(loop_factory=SimLoop) as runner:
            return runner.run(_play(make))
    finally:
        _bury()
        gc.unfreeze()
        gc.enable()


def _bury() -> None:
    """Collect the unfinished coroutines of killed processes now, so that their warnings do not appear in a later
    test.
    """
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        with warnings.catch_warnings():
            # Coroutines of killed processes that were never started cause such warnings.
            warnings.simplefilter("ignore", RuntimeWarning)
            gc.collect()
    finally:
        sys.unraisablehook = before


async def _play(make: Callable[[], Simulation]) -> SeedReport:
    simulation = make()
    with heard(simulation.witness):
        return await simulation.play()
