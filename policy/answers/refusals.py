"""Which writes the API server refuses, and which jobs are affected by each."""

from __future__ import annotations

from collections.abc import Iterator

from policy.cluster.gang import Gang, State
from policy.cluster.refusedwrite import BIND, SET_REPLICAS, RefusedWrite
from policy.cluster.snapshot import Snapshot


def refusals(snapshot: Snapshot) -> Iterator[tuple[str, str, RefusedWrite]]:
    """Yield for each affected job its uid, the uid of the job whose write was refused, and the refused write.

    Each job's own writes come first. A waiting job is also affected by the refused shrink of a job that was to give it
    room.
    """
    writes = [(uid, one) for uid, found in snapshot.refused_writes.items() if uid for one in found]
    borne = [(uid, gang.refused) for uid, gang in snapshot.gangs.items() if gang.refused and _stands(snapshot, gang)]
    now = {(uid, one.write) for uid, one in writes}
    told = [*writes, *((uid, one) for uid, one in borne if (uid, one.write) not in now)]
    yield from ((uid, uid, one) for uid, one in told)
    for uid, one in told:
        rival = snapshot.gang(uid).scaling.on_behalf_of
        if one.write == SET_REPLICAS and rival in snapshot.jobs and _waits(snapshot.gang(rival)):
            yield rival, uid, one


def _stands(snapshot: Snapshot, gang: Gang) -> bool:
    """Tell whether the refused write is still needed; a pod that is gone or bound needs no binding."""
    if gang.refused is None or gang.refused.write != BIND:
        return gang.refused is not None
    pod = snapshot.pods.get(gang.refused.uid)
    return pod is not None and not pod.node


def _waits(gang: Gang) -> bool:
    return gang.state is State.WAITING or bool(gang.waits_for)


def backs_off_from_refusal(gang: Gang) -> bool:
    """Tell whether the gang lacks no room and only waits until its refused bindings are tried again."""
    return gang.state is State.WAITING and gang.refused is not None and gang.refused.write == BIND
