"""State the rules that must hold in every snapshot (S1 to S4 and S9 of docs/reliability.md); tests check them after
every step.

Rules that the constructor of `Gang` enforces are not checked here again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

from policy.cluster.actions import Bind, Effect
from policy.cluster.charges import held_on, key_of, planned_charge, promised_charge
from policy.cluster.gang import ADMITTED, State
from policy.cluster.index import Index
from policy.cluster.preemption import taken_on
from policy.cluster.resources import NOTHING, Resources
from policy.cluster.snapshot import Snapshot


def violations(snapshot: Snapshot) -> list[str]:
    """Return one sentence for each broken rule; an empty list if every rule holds."""
    return [*_charges(snapshot), *_gangs(snapshot), *_members(snapshot)]


def _charges(snapshot: Snapshot) -> Iterator[str]:
    """Yield a sentence for each node whose charged total is not the sum of its bound pods, plans, and promises to
    preemptors.
    """
    sums: dict[str, Resources] = {}
    for pod in snapshot.pods.values():
        if pod.holds_room:
            sums[pod.node] = sums.get(pod.node, NOTHING) + pod.requests
    for uid in snapshot.gangs:
        for node, resources in planned_charge(snapshot, uid).values():
            sums[node] = sums.get(node, NOTHING) + resources
    for name in snapshot.preemptions:
        for node, resources in promised_charge(snapshot.preemptions, name).values():
            sums[node] = sums.get(node, NOTHING) + resources
    for node in sorted(sums.keys() | snapshot.charged.keys()):
        if sums.get(node, NOTHING) != snapshot.charged.get(node, NOTHING):
            yield f"node {node}: {snapshot.charged.get(node)} is charged, but pods and plans take {sums.get(node)}"


def _gangs(snapshot: Snapshot) -> Iterator[str]:
    for uid, gang in sorted(snapshot.gangs.items()):
        job = snapshot.jobs.get(uid)
        if job is None:
            yield f"gang {uid}: the job with this uid does not exist"
            continue
        readable = job.worker is not None and not job.invalid
        if gang.state in ADMITTED and readable and not job.min_workers <= gang.workers <= job.max_workers:
            yield f"{job.key}: its gang has {gang.workers} workers; allowed: {job.min_workers} to {job.max_workers}"
        if not all(gang.gives(slot) and (not readable or job.has(slot, gang.ps)) for slot in gang.nodes):
            yield f"{job.key}: its plan has members that it does not have with {gang.workers} workers and {gang.ps} ps"
        if gang.ps is not None and not job.ps_elastic and readable:
            yield f"{job.key}: its gang states a number of ps, which Kohort must not change for this job"
        if gang.awaited > gang.workers and gang.state is State.RUNNING:
            yield f"{job.key}: its gang awaits {gang.awaited} workers and has only {gang.workers}"


def _members(snapshot: Snapshot) -> Iterator[str]:
    for job_uid, slots in snapshot.members.items():
        for slot, uid in slots.items():
            pod = snapshot.pods.get(uid)
            if pod is None or pod.job_uid != job_uid or pod.slot != slot:
                yield f"slot {slot} of job {job_uid} points to a pod that is not its own"
    filed = [uid for slots in snapshot.members.values() for uid in slots.values()]
    filed += [uid for uids in snapshot.strays.values() for uid in uids]
    if sorted(filed) != sorted(uid for uid, pod in snapshot.pods.items() if pod.job_uid):
        yield "a job's pod stands twice, or not at all, in the snapshot's members and strays"


def index_errors(snapshot: Snapshot) -> list[str]:
    """Return the fields in which the index, updated step by step, differs from one built from the maps alone."""
    anew = Index.of(snapshot)
    return [
        f"index.{field.name} is {getattr(snapshot.index, field.name)}, and must be {getattr(anew, field.name)}"
        for field in fields(Index)
        if field.compare and getattr(snapshot.index, field.name) != getattr(anew, field.name)
    ]


def bound_into_taken(snapshot: Snapshot, effects: Iterable[Effect]) -> list[str]:
    """Return a sentence for each binding of the last step that goes into room which the watch had shown to be taken.

    ``effects`` are those of the step that made the snapshot. Taken is the room of bound pods, of other bindings in
    flight, and of foreign pods that are nominated for the node with the same or a higher priority. Bindings that are
    repeated for a pod that is bound already do not count.
    """
    made = [effect for effect in effects if isinstance(effect, Bind)]
    new = {bind.uid: bind.node for bind in made if (pod := snapshot.pods.get(bind.uid)) is not None and not pod.node}
    held = held_on(snapshot, new.values())
    found = []
    for uid, name in sorted(new.items()):
        pod, node = snapshot.pods[uid], snapshot.nodes.get(name)
        used = held[name] + taken_on(snapshot.preemptions, name, pod.priority)
        if node is None or not used.fits(node.allocatable):
            whole = node.allocatable if node is not None else NOTHING
            found.append(f"{pod.namespace}/{pod.name} is bound to node {name}, where {used} of {whole} would be taken")
    return found


def promised_beyond(snapshot: Snapshot) -> list[str]:
    """Return a sentence for each node on which pods and active plans exceed its allocatable resources (rule S2).

    Plans that wait for room are not active.
    """
    waiting = {uid for uid, gang in snapshot.gangs.items() if gang.waits_for}
    # Room that is promised to a preemptor does not count, because the pods that it preempts may still hold the room.
    waiting.update(map(key_of, snapshot.preemptions))
    over = []
    for name, node in sorted(snapshot.nodes.items()):
        charges = (charge for key, charge in snapshot.charges.items() if key not in waiting)
        active = [resources for charge in charges for host, resources in charge.values() if host == name]
        used: Resources = sum(active, NOTHING)
        if not used.fits(node.allocatable):
            over.append(f"node {name}: pods and plans take {used}, and it has {node.allocatable}")
    return over
