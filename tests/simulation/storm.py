"""Carry out the faults that occur by time, and repair what they broke.

They hit processes, nodes, pods, jobs, and the pods of another scheduler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from extender.kube.api import CONFIGMAPS, Ref
from extender.kube.jobkinds import DELETION_COST, MIN_WORKERS
from lab.embedded.apirules import StatusError
from lab.sim.objects import KOHORT, JobObject, PodObject, WorkloadKind, WorldRefusal
from lab.sim.pods.world import SimulatedWorld
from lab.sim.traces import pod_requests
from lab.virtual.clocks import loop_time, sleep
from policy.cluster.node import Node
from policy.cluster.pod import Phase
from policy.cluster.resources import Resources, total
from tests.simulation.faults import CHEAPEST, DrawnFault, plain
from tests.simulation.scenario import BYSTANDER

if TYPE_CHECKING:
    from tests.simulation.processes import Replica, SimulatedProcess
    from tests.simulation.run import Simulation

THIEF: Final = "other-scheduler"
CLEANED_SECONDS: Final = 3.0  # A pod is deleted this many seconds after it has ended.
ROLES: Final = ("extender", "controller")


class Storm:
    """Carries out the faults that are due, each on a target that is chosen at random."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._world = sim.world
        self._chance = sim.faults.chance
        self._whole = {node.name: node for node in sim.scenario.trace.nodes}
        self._made = 0

    def inject_faults(self) -> None:
        """Carry out the faults that are due and have something that they can hit."""
        for fault in self._sim.faults.due():
            self._do(fault)

    def _do(self, fault: DrawnFault) -> None:
        what = getattr(self, "_" + fault.kind.replace("-", "_"))(fault)
        if what:
            self._sim.faults.note(fault, str(what))

    def _write(self, write: Callable[[SimulatedWorld], WorldRefusal | None]) -> bool:
        try:
            self._sim.cluster.bridge.do(write)
        except StatusError:
            return False
        return True

    # -- The methods below kill and pause processes. ---------------------------------------------

    def _kill_extender(self, fault: DrawnFault) -> str:
        return self._kill(fault, "extender")

    def _kill_controller(self, fault: DrawnFault) -> str:
        return self._kill(fault, "controller")

    def _kill_scheduler(self, fault: DrawnFault) -> str:
        return self._kill(fault, "scheduler")

    def _process(self, fault: DrawnFault, role: str) -> SimulatedProcess | None:
        """Return a running process of that role, such as extender; None if there is none."""
        running = (process for process in self._sim.processes if process.role == role and process.up)
        return fault.pick("process", running, _name)

    def _kill(self, fault: DrawnFault, role: str) -> str:
        process = self._process(fault, role)
        if process is None:
            return ""
        process.kill(fault)
        return process.name

    def _pause_extender(self, fault: DrawnFault) -> str:
        return self._pause(fault, "extender")

    def _pause_controller(self, fault: DrawnFault) -> str:
        return self._pause(fault, "controller")

    def _pause_scheduler(self, fault: DrawnFault) -> str:
        return self._pause(fault, "scheduler")

    def _pause(self, fault: DrawnFault, role: str) -> str:
        process = self._process(fault, role)
        if process is None:
            return ""
        seconds = fault.choice("long", (0.3, 2.0, 7.0, 25.0))
        process.clock.pause(seconds)
        return f"{process.name} for {seconds:g} s"

    def _clock_jump_extender(self, fault: DrawnFault) -> str:
        return self._jump(fault, "extender")

    def _clock_jump_controller(self, fault: DrawnFault) -> str:
        return self._jump(fault, "controller")

    def _jump(self, fault: DrawnFault, role: str) -> str:
        process = fault.pick("process", (process for process in self._sim.processes if process.role == role), _name)
        if process is None:
            return ""
        process.jump(fault.choice("by", (-3600.0, -20.0, 0.0, 20.0, 3600.0)))
        self._sim.witness.jumped = True
        return f"{process.name} {process.offset:+g} s"

    # -- The methods below disturb the leading replica. ------------------------------------------

    def _leader(self) -> Replica | None:
        """Return the replica that leads, if a Lease decides it and all of its processes are up."""
        sim = self._sim
        found = [r for r in sim.replicas if sim.scenario.leased and r.leads]
        return found[0] if len(found) == 1 and all(process.up for process in found[0].pod) else None

    def _leader_killed(self, fault: DrawnFault) -> str:
        """Kill the leader's whole pod, as if its node failed, so that the other replica takes over once the Lease has
        expired.
        """
        leader = self._leader()
        if leader is None:
            return ""
        for process in leader.pod:
            process.kill(fault)
        return leader.name

    def _leader_paused(self, fault: DrawnFault) -> str:
        """Pause the leader's whole pod until the Lease has run out, or just before that."""
        leader = self._leader()
        return self._pause_all(leader, self._beyond_the_lease(fault)) if leader is not None else ""

    def _beyond_the_lease(self, fault: DrawnFault) -> float:
        """Return the seconds of a pause: in half of the cases longer than the Lease's duration, in the others about as
        long.
        """
        return fault.draw("long", lambda chance: chance.uniform(*chance.choice(((9.0, 17.0), (16.0, 40.0)))))

    def _leader_paused_in_gang(self, fault: DrawnFault) -> str:
        """Pause the leader while bind calls of a gang are held or its bindings are in flight."""
        leader = self._leader()
        if leader is None or not leader.extender.ready:
            return ""
        gangs = leader.extender.live.ledger.snapshot.gangs.values()
        if not any(gang.held or gang.in_flight for gang in gangs):
            return ""
        return self._pause_all(leader, self._beyond_the_lease(fault))

    def _leader_stopped_briefly(self, fault: DrawnFault) -> str:
        leader = self._leader()
        return self._pause_all(leader, fault.uniform("long", 1.0, 9.0)) if leader is not None else ""

    def moves(self, job: str) -> None:
        """Kill a process or pause the leader while the job ``job`` is being moved, if such a fault is due."""
        leader, after = self._sim.leader, self._chance.uniform(0.0, 8.0)
        # The order is random, because at most one fault hits a call, and the first kind has the better chance.
        first = self._chance.random() < 0.5
        kinds = ("kill-in-move", "leader-paused-in-move") if first else ("leader-paused-in-move", "kill-in-move")
        fault = self._sim.faults.fault_at([f"policy: move {job}"], *kinds)
        if not fault:
            return
        after = fault.draw("after", lambda _: after)
        if fault.kind == "kill-in-move":
            role = fault.choice("role", ROLES)
            self._later(after, lambda: (leader.extender if role == "extender" else leader.controller).kill(fault))
        else:
            seconds = fault.uniform("long", 5.0, 40.0)
            self._later(after, lambda: self._pause_all(leader, seconds))

    def _later(self, seconds: float, inject: Callable[[], object]) -> None:
        """Carry out the fault after ``seconds`` seconds, unless the calm has begun by then."""
        asyncio.get_running_loop().call_later(seconds, lambda: self._sim.faults.active and inject())

    def _kill_at_slot(self, fault: DrawnFault) -> str:
        """Kill a process just before or after the next time slot begins, when OASiS changes the numbers of workers."""
        return self._at_slot(fault, lambda: self._kill(fault, fault.choice("role", ROLES)))

    def _pause_at_slot(self, fault: DrawnFault) -> str:
        return self._at_slot(fault, lambda: self._pause(fault, fault.choice("role", ROLES)))

    def _at_slot(self, fault: DrawnFault, inject: Callable[[], str]) -> str:
        slot = float(self._sim.scenario.settings.parameters["slot_seconds"])
        rest = slot - loop_time() % slot + fault.uniform("into the slot", -0.2, 1.0)
        self._later(max(0.0, rest), inject)
        return f"in {rest:.1f} s"

    def _pause_all(self, replica: Replica, seconds: float) -> str:
        for process in replica.pod:
            process.clock.pause(seconds)
        return f"{replica.name} for {seconds:.0f} s"

    def _lease_lost(self, fault: DrawnFault) -> str:
        """Make the Lease's holder unable to renew it for too long, so that the other replica leads."""
        return self._block(fault.uniform("long", 12.0, 25.0))

    def _lease_not_renewed(self, fault: DrawnFault) -> str:
        return self._block(fault.uniform("long", 2.0, 9.0))

    def _block(self, seconds: float) -> str:
        leader = self._leader()
        if leader is None or leader.candidate.blocked_until > loop_time():
            return ""
        leader.candidate.blocked_until = loop_time() + seconds
        return f"by {leader.name} for {seconds:.0f} s"

    # -- The method below disturbs the API server. -----------------------------------------------

    def _compaction(self, fault: DrawnFault) -> str:
        self._sim.cluster.server.store.compact()
        return "the watch history"

    # -- The methods below change nodes. ---------------------------------------------------------

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

    def _node_not_ready(self, fault: DrawnFault) -> str:
        return self._change_node(fault.pick("node", self._healthy(), _name), ready=False)

    def _node_cordoned(self, fault: DrawnFault) -> str:
        return self._change_node(fault.pick("node", self._healthy(), _name), unschedulable=True)

    def _node_shrunk(self, fault: DrawnFault) -> str:
        node = fault.pick("node", self._healthy(), _name)
        if node is None or node.allocatable != self._whole[node.name].allocatable:
            return ""
        less = node.allocatable - Resources({"cpu": node.allocatable["cpu"] // 2})
        return self._change_node(node, allocatable=less)

    def _node_deleted(self, fault: DrawnFault) -> str:
        node = fault.pick("node", self._healthy(), _name)
        if node is None or not self._write(lambda world: world.remove_node(node.name)):
            return ""
        return node.name

    def _node_back(self, fault: DrawnFault) -> str:
        gone = [name for name, node in sorted(self._whole.items()) if not self._is_whole(node)]
        name = fault.pick("node", gone, str)
        return self._mend_node(name) if name else ""

    def _is_whole(self, node: Node) -> bool:
        now = self._world.store.nodes.get(node.name)
        return now is not None and now.ready and not now.unschedulable and now.allocatable == node.allocatable

    def _mend_node(self, name: str) -> str:
        self._write(lambda world: world.add_node(self._whole[name]))
        return name

    def _operator_restarted(self, fault: DrawnFault) -> str:
        away = fault.uniform("long", 1.0, 20.0)
        self._sim.cluster.bridge.do(lambda world: world.operator.restart(away))
        # The controllers of StatefulSets and Deployments restart with the operator.
        self._sim.cluster.bridge.do(lambda world: world.apps.restart(away))
        self._sim.cluster.bridge.do(lambda world: world.batch.restart(away))
        return f"for {away:.1f} s"

    # -- The methods below disturb pods. ---------------------------------------------------------

    def _pods(self, scheduler: str = KOHORT) -> list[PodObject]:
        return [pod for pod in self._world.store.pods.values() if pod.scheduler == scheduler]

    def _pod_deleted(self, fault: DrawnFault) -> str:
        pod = fault.pick("pod", (pod for pod in self._pods() if pod.deleted is None), _key)
        if pod is None or not self._write(lambda world: world.delete_pod(pod.namespace, pod.name)):
            return ""
        return pod.key

    def _pod_failed(self, fault: DrawnFault) -> str:
        pod = fault.pick("pod", (pod for pod in self._pods() if pod.works), _key)
        if pod is None:
            return ""
        self._write(lambda world: end_pod(world, pod, Phase.FAILED))
        return pod.key

    def _member_bound_by_another(self, fault: DrawnFault) -> str:
        unbound = (pod for pod in self._pods() if not pod.node and not pod.gates and pod.deleted is None)
        pod = fault.pick("pod", unbound, _key)
        node = fault.pick("node", self._fitting(pod.requests), _name) if pod is not None else None
        if pod is None or node is None or not self._write(lambda w: w.bind(pod.namespace, pod.name, node.name)):
            return ""
        return f"{pod.key} on {node.name}"

    def _fitting(self, requests: Resources) -> list[Node]:
        return [node for node in self._healthy() if requests.fits(self._free(node))]

    def _free(self, node: Node) -> Resources:
        held = (pod for pod in self._world.store.pods.values() if pod.node == node.name and pod.holds_room)
        return node.allocatable - total(pod.requests for pod in held)

    def _room_stolen(self, fault: DrawnFault) -> str:
        if len(self._pods(THIEF)) >= 3:
            return ""
        asks = pod_requests(fault.choice("cores", (1, 2, 4)), 2)
        node = fault.pick("node", self._fitting(asks), _name)
        if node is None:
            return ""
        self._create(fault, "thief", THIEF, asks, node.name)
        return f"{asks} of {node.name}"

    def _create(self, fault: DrawnFault, what: str, scheduler: str, asks: Resources, node: str = "") -> None:
        self._made += 1
        name = fault.draw("name", lambda _: f"{what}-{self._made}")
        made = PodObject("", "elsewhere", name, asks, scheduler=scheduler, node=node)
        self._write(lambda world: world.create_pod(made))

    def _room_given_back(self, fault: DrawnFault) -> str:
        pod = fault.pick("pod", (pod for pod in self._pods(THIEF) if pod.deleted is None), _key)
        if pod is None or not self._write(lambda world: world.delete_pod(pod.namespace, pod.name)):
            return ""
        return pod.key

    def _bystander_created(self, fault: DrawnFault) -> str:
        if len(self._pods(BYSTANDER)) >= 4:
            return ""
        self._create(fault, "bystander", BYSTANDER, pod_requests(0.1, 0.1))
        return "a pod"

    def _lone_pod_created(self, fault: DrawnFault) -> str:
        return self._sim.bare.create_lone(fault)

    def _group_created(self, fault: DrawnFault) -> str:
        return self._sim.bare.create_group(fault)

    def _group_deleted(self, fault: DrawnFault) -> str:
        return self._sim.bare.end(fault)

    def _group_made_anew(self, fault: DrawnFault) -> str:
        return self._sim.bare.make_anew(fault)

    # -- In the methods below, other parties disturb the cluster. ------------------------------------

    def _preemptor_created(self, fault: DrawnFault) -> str:
        return self._sim.others.create_preemptor(fault)

    def _volume_missing(self, fault: DrawnFault) -> str:
        return self._sim.others.lose_volume(fault)

    def _writes_refused(self, fault: DrawnFault) -> str:
        return self._sim.others.refuse_writes(fault)

    def _refused_for_good(self, fault: DrawnFault) -> str:
        return self._sim.others.refuse_for_good(fault)

    def _quota_set(self, fault: DrawnFault) -> str:
        return self._sim.others.set_quota(fault)

    # -- The methods below change jobs. ----------------------------------------------------------

    def _jobs(self) -> list[JobObject]:
        return [job for job in self._world.store.jobs.values() if not job.phase.ended]

    def _job_bounds_edited(self, fault: DrawnFault) -> str:
        job = fault.pick("job", self._jobs(), _key)
        if job is None:
            return ""
        least = fault.draw("min", lambda chance: chance.randint(1, 3))
        most = fault.draw("max", lambda chance: least + chance.randint(0, 3))
        spec = replace(job.spec, min_workers=least, max_workers=most)
        self._write(lambda world: world.put_spec(spec))
        return f"{job.key} {spec.min_workers}..{spec.max_workers}"

    def _job_replicas_edited(self, fault: DrawnFault) -> str:
        job = fault.pick("job", self._jobs(), _key)
        if job is None:
            return ""
        asked = fault.draw("workers", lambda chance: chance.randint(1, 6))
        self._write(lambda world: world.patch_workers(job.spec.namespace, job.spec.name, asked))
        return f"{job.key} {asked}"

    def _worker_taken_out(self, fault: DrawnFault) -> str:
        """Remove a certain worker of a Deployment as a user does: by its deletion cost and a lower number of
        replicas.
        """
        own = [job for job in self._jobs() if job.spec.kind is WorkloadKind.DEPLOYMENT]
        shrinkable = (job for job in own if job.spec.workers > max(1, job.spec.min_workers))
        job = fault.pick("job", shrinkable, _key)
        pods = self._world.store.pods_of(job.uid) if job is not None else ()
        pod = fault.pick("pod", (pod for pod in pods if pod.works), _key)
        if job is None or pod is None:
            return ""
        self._write(lambda world: world.annotate(pod.namespace, pod.name, {DELETION_COST: str(CHEAPEST)}))
        self._write(lambda world: world.patch_workers(job.spec.namespace, job.spec.name, job.spec.workers - 1))
        return pod.key

    def _index_done(self, fault: DrawnFault) -> str:
        """Let a worker of an Indexed Job finish before the others; half of these pods are deleted afterwards."""
        own = {job.uid for job in self._jobs() if job.spec.kind is WorkloadKind.INDEXED_JOB}
        pods = (pod for pod in self._world.store.pods.values() if pod.owner in own and pod.works)
        pod = fault.pick("pod", pods, _key)
        if pod is None:
            return ""
        self._write(lambda world: end_pod(world, pod, Phase.SUCCEEDED))
        if fault.draw("cleaned", lambda _: bool(int(pod.uid[-1], 16) % 2)):
            self._sim.spawn(self._clean_up(pod))
        return pod.key

    async def _clean_up(self, pod: PodObject) -> None:
        await sleep(CLEANED_SECONDS)
        self._write(lambda world: world.delete_pod(pod.namespace, pod.name, uid=pod.uid))

    def _job_suspended(self, fault: DrawnFault) -> str:
        job = fault.pick("job", (job for job in self._jobs() if not job.stopped), _key)
        if job is None:
            return ""
        self._write(lambda world: stop(world, job))
        return job.key

    def _job_resumed(self, fault: DrawnFault) -> str:
        job = fault.pick("job", (job for job in self._jobs() if job.stopped), _key)
        return self._resume(job) if job is not None else ""

    def _resume(self, job: JobObject) -> str:
        self._write(lambda world: go_on(world, job))
        return job.key

    def _job_deleted(self, fault: DrawnFault) -> str:
        job = fault.pick("job", self._jobs(), _key)
        if job is None or self._sim.deleted >= 2:
            return ""
        self._write(lambda world: world.delete_job(job.spec.namespace, job.spec.name))
        self._sim.deleted += 1
        return job.key

    def _annotation_forged(self, fault: DrawnFault) -> str:
        honest = (job for job in self._jobs() if MIN_WORKERS not in job.spec.annotations)
        job = fault.pick("job", honest, _key)
        if job is None:
            return ""
        spec = replace(job.spec, annotations={**job.spec.annotations, MIN_WORKERS: "-1"})
        self._write(lambda world: world.put_spec(spec))
        return job.key

    def _gate_switched(self, fault: DrawnFault) -> str:
        gate = self._sim.scenario.settings.gate_parameters
        value = fault.choice("gate", ("on", "off"))
        ref = Ref(CONFIGMAPS, gate.namespace, gate.name)
        self._sim.cluster.server.patch(ref, {"data": {"gate": value}}, "application/merge-patch+json")
        return value

    # -- The method below repairs what faults have left behind. ----------------------------------

    def calm(self) -> None:
        """Repair what Kohort cannot repair: nodes, suspended jobs, pods of others, processes, the Lease."""
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
        self._sim.others.calm()
        for fault in self._sim.faults.due_in_calm():
            self._do(fault)
        for replica in self._sim.replicas:
            replica.candidate.blocked_until = 0.0
        for process in self._sim.processes:
            if not process.up:
                process.restart_in(1.0)


def _name(found: SimulatedProcess | Node) -> str:
    return found.name


def _key(found: PodObject | JobObject) -> str:
    return plain(found.key)


def stop(world: SimulatedWorld, job: JobObject) -> WorldRefusal | None:
    """Stop the job as a user does: by suspension, or by no replicas where its kind cannot be suspended."""
    namespace, name = job.spec.namespace, job.spec.name
    return world.suspend(namespace, name) if job.spec.kind.ends else world.patch_workers(namespace, name, 0)


def go_on(world: SimulatedWorld, job: JobObject) -> WorldRefusal | None:
    """Let the job run again; if its kind cannot be suspended, it gets its minimum of workers as replicas."""
    namespace, name = job.spec.namespace, job.spec.name
    if job.spec.kind.ends:
        return world.suspend(namespace, name, False)
    return world.patch_workers(namespace, name, job.spec.min_workers)


def end_pod(world: SimulatedWorld, pod: PodObject, phase: Phase) -> WorldRefusal | None:
    """Let the pod end in the phase succeeded or failed, as when its process exits."""
    world._core.write_pod(replace(pod, phase=phase, ended=world.now))
    return None
