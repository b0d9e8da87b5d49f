"""Lists the writes that the API server refuses, with the jobs that each of them affects."""

from __future__ import annotations

from collections.abc import Iterator

from policy.cluster.gang import Gang, State
from policy.cluster.refusedwrite import BIND, SET_REPLICAS, RefusedWrite
from policy.cluster.snapshot import Snapshot


def refusals(snapshot: Snapshot) -> Iterator[tuple[str, str, RefusedWrite]]:
    """Yield for each affected job its uid, the uid of the job whose write was refused, and the refused write.

    First come the jobs whose own writes were refused. Then come waiting jobs that are affected by the refused shrink of
    a job that was to give them room.
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
    """Tell whether the gang's refused write is still needed; a binding is not, once its pod is gone or bound."""
    if gang.refused is None or gang.refused.write != BIND:
        return gang.refused is not None
    pod = snapshot.pods.get(gang.refused.uid)
    return pod is not None and not pod.node


def _waits(gang: Gang) -> bool:
    return gang.state is State.WAITING or bool(gang.waits_for)


def backs_off_from_refusal(gang: Gang) -> bool:
    """Tell whether the gang waits because the API server has refused its bindings, and not for room."""
    return gang.state is State.WAITING and gang.refused is not None and gang.refused.write == BIND
