"""Faults by time, and the way back: processes, nodes, pods, jobs, and another scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from extender.embedded.rules import RefusedError
from extender.kube.api import CONFIGMAPS, Ref
from extender.kube.jobkinds import DELETION_COST, MIN_WORKERS
from policy.cluster.model import Node, Phase
from policy.cluster.resources import Resources, total
from policy.sim.objects import KOHORT, JobKind, JobObject, PodObject, Refusal
from policy.sim.pods.world import World
from policy.sim.traces import pod_requests
from tests.simulation.clocks import loop_time, sleep
from tests.simulation.faults import CHEAPEST
from tests.simulation.scenario import BYSTANDER

if TYPE_CHECKING:
    from tests.simulation.processes import Process, Replica
    from tests.simulation.run import Simulation

THIEF: Final = "other-scheduler"
CLEANED_SECONDS: Final = 3.0  # from the end of a pod until somebody deletes it
T = TypeVar("T")


class Storm:
    """Does one fault at a time, as chance has it."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._world = sim.world
        self._chance = sim.faults.chance
        self._whole = {node.name: node for node in sim.scenario.trace.nodes}
        self._made = 0

    def strike(self) -> None:
        """Do the next fault, if there is something that it can hit."""
        kind = self._sim.faults.timed()
        if kind:
            self._do(kind)

    def _do(self, kind: str) -> None:
        what = getattr(self, "_" + kind.replace("-", "_"))()
        if what:
            self._sim.faults.note(kind, str(what))

    def _pick(self, found: Iterable[T]) -> T | None:
        options = list(found)
        return self._chance.choice(options) if options else None

    def _write(self, write: Callable[[World], Refusal | None]) -> bool:
        try:
            self._sim.cluster.bridge.do(write)
        except RefusedError:
            return False
        return True

    # -- processes -------------------------------------------------------------------------------

    def _kill_extender(self) -> str:
        return self._kill("extender")

    def _kill_controller(self) -> str:
        return self._kill("controller")

    def _kill_scheduler(self) -> str:
        return self._kill("scheduler")

    def _process(self, role: str) -> Process | None:
        """One that runs."""
        return self._pick(process for process in self._sim.processes if process.role == role and process.up)

    def _kill(self, role: str) -> str:
        process = self._process(role)
        if process is None:
            return ""
        process.kill()
        return process.name

    def _pause_extender(self) -> str:
        return self._pause("extender")

    def _pause_controller(self) -> str:
        return self._pause("controller")

    def _pause_scheduler(self) -> str:
        return self._pause("scheduler")

    def _pause(self, role: str) -> str:
        process = self._process(role)
        if process is None:
            return ""
        seconds = self._chance.choice((0.3, 2.0, 7.0, 25.0))
        process.clock.pause(seconds)
        return f"{process.name} for {seconds:g} s"

    def _clock_jump_extender(self) -> str:
        return self._jump("extender")

    def _clock_jump_controller(self) -> str:
        return self._jump("controller")

    def _jump(self, role: str) -> str:
        process = self._chance.choice([process for process in self._sim.processes if process.role == role])
        process.jump(self._chance.choice((-3600.0, -20.0, 0.0, 20.0, 3600.0)))
        self._sim.witness.jumped = True
        return f"{process.name} {process.offset:+g} s"

    # -- leadership ------------------------------------------------------------------------------

    def _leader(self) -> Replica | None:
        """The replica that leads, where a Lease says so and all of it is up."""
        sim = self._sim
        found = [r for r in sim.replicas if sim.scenario.leased and r.leads]
        return found[0] if len(found) == 1 and all(process.up for process in found[0].pod) else None

    def _leader_killed(self) -> str:
        """The whole pod, as when its node dies: the other replica takes over when the Lease has run out."""
        leader = self._leader()
        if leader is None:
            return ""
        for process in leader.pod:
            process.kill()
        return leader.name

    def _leader_paused(self) -> str:
        """The whole pod: it wakes as somebody who has led, or just before another may take the Lease over."""
        leader = self._leader()
        return self._pause_all(leader, self._beyond_the_lease()) if leader is not None else ""

    def _beyond_the_lease(self) -> float:
        """Seconds of which half the time the Lease has run out, and half the time it is about to."""
        return self._chance.uniform(*self._chance.choice(((9.0, 17.0), (16.0, 40.0))))

    def _leader_paused_in_gang(self) -> str:
        """The same, while bindings of a gang are held or on their way."""
        leader = self._leader()
        if leader is None or not leader.extender.ready:
            return ""
        gangs = leader.extender.live.ledger.snapshot.gangs.values()
        if not any(gang.held or gang.in_flight for gang in gangs):
            return ""
        return self._pause_all(leader, self._beyond_the_lease())

    def _leader_stopped_briefly(self) -> str:
        leader = self._leader()
        return self._pause_all(leader, self._chance.uniform(1.0, 9.0)) if leader is not None else ""

    def moves(self) -> None:
        """A gang is to be moved: somebody may die on the way, or the leader not be there when its members are gone."""
        leader, after = self._sim.leader, self._chance.uniform(0.0, 8.0)
        first = self._chance.random() < 0.5  # else the second of them would befall only what the first has spared
        kinds = ("kill-in-move", "leader-paused-in-move") if first else ("leader-paused-in-move", "kill-in-move")
        match self._sim.faults.strikes(*kinds):
            case "kill-in-move":
                process = self._chance.choice((leader.extender, leader.controller))
                self._later(after, process.kill)
            case "leader-paused-in-move":
                seconds = self._chance.uniform(5.0, 40.0)
                self._later(after, lambda: self._pause_all(leader, seconds))
            case _:
                pass

    def _later(self, seconds: float, strike: Callable[[], object]) -> None:
        """Strike then, unless the calm has come."""
        asyncio.get_running_loop().call_later(seconds, lambda: self._sim.faults.active and strike())

    def _kill_at_slot(self) -> str:
        """A moment before or after the next slot begins, when all counts change and much is written."""
        return self._at_slot(lambda: self._kill(self._chance.choice(("extender", "controller"))))

    def _pause_at_slot(self) -> str:
        return self._at_slot(lambda: self._pause(self._chance.choice(("extender", "controller"))))

    def _at_slot(self, strike: Callable[[], str]) -> str:
        slot = float(self._sim.scenario.settings.parameters["slot_seconds"])
        rest = slot - loop_time() % slot + self._chance.uniform(-0.2, 1.0)
        self._later(max(0.0, rest), strike)
        return f"in {rest:.1f} s"

    def _pause_all(self, replica: Replica, seconds: float) -> str:
        for process in replica.pod:
            process.clock.pause(seconds)
        return f"{replica.name} for {seconds:.0f} s"

    def _lease_lost(self) -> str:
        """Who holds the Lease cannot write it for too long, and the other replica leads; a kube-scheduler ends."""
        return self._block(self._chance.uniform(12.0, 25.0))

    def _lease_not_renewed(self) -> str:
        return self._block(self._chance.uniform(2.0, 9.0))

    def _block(self, seconds: float) -> str:
        leader = self._leader()
        if leader is None or leader.candidate.blocked_until > loop_time():
            return ""
        leader.candidate.blocked_until = loop_time() + seconds
        return f"by {leader.name} for {seconds:.0f} s"

    # -- the API server --------------------------------------------------------------------------

    def _compaction(self) -> str:
        self._sim.cluster.server.store.compact()
        return "the watch history"

    # -- nodes -----------------------------------------------------------------------------------

    def _nodes(self) -> list[Node]:
        return [self._world.store.nodes[name] for name in sorted(self._world.store.nodes)]

    def _healthy(self) -> list[Node]:
        found = [node for node in self._nodes() if node.ready and not node.unschedulable]
        return found if len(found) > 1 else []

    def _change_node(self, node: Node | None, **changes: object) -> str:
        if node is None:
            return ""
        made = replace(node, **changes)  # type: ignore[arg-type]
        self._write(lambda world: world.add_node(made))
        return node.name

    def _node_not_ready(self) -> str:
        return self._change_node(self._pick(self._healthy()), ready=False)

    def _node_cordoned(self) -> str:
        return self._change_node(self._pick(self._healthy()), unschedulable=True)

    def _node_shrunk(self) -> str:
        node = self._pick(self._healthy())
        if node is None or node.allocatable != self._whole[node.name].allocatable:
            return ""
        less = node.allocatable - Resources({"cpu": node.allocatable["cpu"] // 2})
        return self._change_node(node, allocatable=less)

    def _node_deleted(self) -> str:
        node = self._pick(self._healthy())
        if node is None or not self._write(lambda world: world.remove_node(node.name)):
            return ""
        return node.name

    def _node_back(self) -> str:
        gone = [name for name, node in sorted(self._whole.items()) if not self._is_whole(node)]
        name = self._pick(gone)
        return self._mend_node(name) if name else ""

    def _is_whole(self, node: Node) -> bool:
        now = self._world.store.nodes.get(node.name)
        return now is not None and now.ready and not now.unschedulable and now.allocatable == node.allocatable

    def _mend_node(self, name: str) -> str:
        self._write(lambda world: world.add_node(self._whole[name]))
        return name

    def _operator_restarted(self) -> str:
        away = self._chance.uniform(1.0, 20.0)
        self._sim.cluster.bridge.do(lambda world: world.operator.restart(away))
        self._sim.cluster.bridge.do(lambda world: world.apps.restart(away))  # kube-controller-manager
        self._sim.cluster.bridge.do(lambda world: world.batch.restart(away))
        return f"for {away:.1f} s"

    # -- pods ------------------------------------------------------------------------------------

    def _pods(self, scheduler: str = KOHORT) -> list[PodObject]:
        return [pod for pod in self._world.store.pods.values() if pod.scheduler == scheduler]

    def _pod_deleted(self) -> str:
        pod = self._pick(pod for pod in self._pods() if pod.deleted is None)
        if pod is None or not self._write(lambda world: world.delete_pod(pod.namespace, pod.name)):
            return ""
        return pod.key

    def _pod_failed(self) -> str:
        pod = self._pick(pod for pod in self._pods() if pod.works)
        if pod is None:
            return ""
        self._write(lambda world: end_pod(world, pod, Phase.FAILED))
        return pod.key

    def _member_bound_by_another(self) -> str:
        pod = self._pick(pod for pod in self._pods() if not pod.node and not pod.gates and pod.deleted is None)
        node = self._pick(self._fitting(pod.requests)) if pod is not None else None
        if pod is None or node is None or not self._write(lambda w: w.bind(pod.namespace, pod.name, node.name)):
            return ""
        return f"{pod.key} on {node.name}"

    def _fitting(self, requests: Resources) -> list[Node]:
        return [node for node in self._healthy() if requests.fits(self._free(node))]

    def _free(self, node: Node) -> Resources:
        held = (pod for pod in self._world.store.pods.values() if pod.node == node.name and pod.holds_room)
        return node.allocatable - total(pod.requests for pod in held)

    def _room_stolen(self) -> str:
        if len(self._pods(THIEF)) >= 3:
            return ""
        asks = pod_requests(self._chance.choice((1, 2, 4)), 2)
        node = self._pick(self._fitting(asks))
        if node is None:
            return ""
        self._create("thief", THIEF, asks, node.name)
        return f"{asks} of {node.name}"

    def _create(self, name: str, scheduler: str, asks: Resources, node: str = "") -> None:
        self._made += 1
        made = PodObject("", "elsewhere", f"{name}-{self._made}", asks, scheduler=scheduler, node=node)
        self._write(lambda world: world.create_pod(made))

    def _room_given_back(self) -> str:
        pod = self._pick(pod for pod in self._pods(THIEF) if pod.deleted is None)
        if pod is None or not self._write(lambda world: world.delete_pod(pod.namespace, pod.name)):
            return ""
        return pod.key

    def _bystander_created(self) -> str:
        if len(self._pods(BYSTANDER)) >= 4:
            return ""
        self._create("bystander", BYSTANDER, pod_requests(0.1, 0.1))
        return "a pod"

    def _lone_pod_created(self) -> str:
        return self._sim.bare.create_lone()

    def _group_created(self) -> str:
        return self._sim.bare.create_group()

    def _group_deleted(self) -> str:
        return self._sim.bare.end()

    def _group_made_anew(self) -> str:
        return self._sim.bare.make_anew()

    # -- jobs ------------------------------------------------------------------------------------

    def _jobs(self) -> list[JobObject]:
        return [job for job in self._world.store.jobs.values() if not job.phase.ended]

    def _job_bounds_edited(self) -> str:
        job = self._pick(self._jobs())
        if job is None:
            return ""
        least = self._chance.randint(1, 3)
        spec = replace(job.spec, min_workers=least, max_workers=least + self._chance.randint(0, 3))
        self._write(lambda world: world.put_spec(spec))
        return f"{job.key} {spec.min_workers}..{spec.max_workers}"

    def _job_replicas_edited(self) -> str:
        job = self._pick(self._jobs())
        if job is None:
            return ""
        asked = self._chance.randint(1, 6)
        self._write(lambda world: world.patch_workers(job.spec.namespace, job.spec.name, asked))
        return f"{job.key} {asked}"

    def _worker_taken_out(self) -> str:
        """A user takes a certain worker out of a Deployment: the cheapest to delete, and one less is asked for."""
        own = [job for job in self._jobs() if job.spec.kind is JobKind.DEPLOYMENT]
        job = self._pick(job for job in own if job.spec.workers > max(1, job.spec.min_workers))
        pods = self._world.store.pods_of(job.uid) if job is not None else ()
        pod = self._pick(pod for pod in pods if pod.works)
        if job is None or pod is None:
            return ""
        self._write(lambda world: world.annotate(pod.namespace, pod.name, {DELETION_COST: str(CHEAPEST)}))
        self._write(lambda world: world.patch_workers(job.spec.namespace, job.spec.name, job.spec.workers - 1))
        return pod.key

    def _index_done(self) -> str:
        """A worker of an Indexed Job has done its part before the others; every second one is cleaned away."""
        own = {job.uid for job in self._jobs() if job.spec.kind is JobKind.INDEXED_JOB}
        pod = self._pick(pod for pod in self._world.store.pods.values() if pod.owner in own and pod.works)
        if pod is None:
            return ""
        self._write(lambda world: end_pod(world, pod, Phase.SUCCEEDED))
        if int(pod.uid[-1], 16) % 2:
            self._sim.spawn(self._clean_up(pod))
        return pod.key

    async def _clean_up(self, pod: PodObject) -> None:
        await sleep(CLEANED_SECONDS)
        self._write(lambda world: world.delete_pod(pod.namespace, pod.name, uid=pod.uid))

    def _job_suspended(self) -> str:
        job = self._pick(job for job in self._jobs() if not job.stopped)
        if job is None:
            return ""
        self._write(lambda world: stop(world, job))
        return job.key

    def _job_resumed(self) -> str:
        job = self._pick(job for job in self._jobs() if job.stopped)
        return self._resume(job) if job is not None else ""

    def _resume(self, job: JobObject) -> str:
        self._write(lambda world: go_on(world, job))
        return job.key

    def _job_deleted(self) -> str:
        job = self._pick(self._jobs())
        if job is None or self._sim.deleted >= 2:
            return ""
        self._write(lambda world: world.delete_job(job.spec.namespace, job.spec.name))
        self._sim.deleted += 1
        return job.key

    def _annotation_forged(self) -> str:
        job = self._pick(job for job in self._jobs() if MIN_WORKERS not in job.spec.annotations)
        if job is None:
            return ""
        spec = replace(job.spec, annotations={**job.spec.annotations, MIN_WORKERS: "-1"})
        self._write(lambda world: world.put_spec(spec))
        return job.key

    def _gate_switched(self) -> str:
        gate = self._sim.scenario.settings.gate_parameters
        value = self._chance.choice(("on", "off"))
        ref = Ref(CONFIGMAPS, gate.namespace, gate.name)
        self._sim.cluster.server.patch(ref, {"data": {"gate": value}}, "application/merge-patch+json")
        return value

    # -- the calm --------------------------------------------------------------------------------

    def calm(self) -> None:
        """Mend what cannot mend itself: nodes, suspended jobs, others' pods, processes, Lease. The rest is Kohort's."""
        for name, node in sorted(self._whole.items()):
            if not self._is_whole(node):
                self._mend_node(name)
        for pod in self._pods(THIEF):
            if pod.deleted is None:
                self._write(lambda world, pod=pod: world.delete_pod(pod.namespace, pod.name))  # type: ignore[misc]
        for job in self._jobs():
            if job.stopped and not job.released:
                self._resume(job)
            if job.spec.annotations.get(MIN_WORKERS) == "-1":
                current = self._world.store.jobs[job.uid].spec
                kept = {key: value for key, value in current.annotations.items() if key != MIN_WORKERS}
                spec = replace(current, annotations=kept)
                self._write(lambda world, spec=spec: world.put_spec(spec))  # type: ignore[misc]
        if "worker-taken-out" in self._sim.faults.on:
            self._do("worker-taken-out")  # jobs are short: what is left of one in the storm is seldom seen here
        for replica in self._sim.replicas:
            replica.candidate.blocked_until = 0.0
        for process in self._sim.processes:
            if not process.up:
                process.restart_in(1.0)


def stop(world: World, job: JobObject) -> Refusal | None:
    """As a user does: a kind that has no suspension is asked for no replicas."""
    namespace, name = job.spec.namespace, job.spec.name
    return world.suspend(namespace, name) if job.spec.kind.ends else world.patch_workers(namespace, name, 0)


def go_on(world: World, job: JobObject) -> Refusal | None:
    """The way back; how many workers it had is forgotten."""
    namespace, name = job.spec.namespace, job.spec.name
    if job.spec.kind.ends:
        return world.suspend(namespace, name, False)
    return world.patch_workers(namespace, name, job.spec.min_workers)


def end_pod(world: World, pod: PodObject, phase: Phase) -> Refusal | None:
    """The pod's process ends."""
    world._ground.write_pod(replace(pod, phase=phase, ended=world.now))
    return None
