"""Check that a process takes no action that contradicts the facts that its own watches have delivered (S17, S18)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lab.virtual.clocks import loop_time
from policy.cluster.gang import ADMITTED
from policy.cluster.pod import Pod
from policy.cluster.resources import NOTHING, Resources, total
from policy.cluster.snapshot import Snapshot
from policy.cluster.trouble import is_turned_away

if TYPE_CHECKING:
    from tests.simulation.processes import ExtenderProcess

HEARD_SECONDS: Final = 1.0
Planned = tuple[str, str]  # (the plan's name, the member's node)


def taken_before(snapshot: Snapshot, uid: str, node: str) -> str:
    """Return what occupies a node to which a pod is sent, as far as the ledger knows; "" if there is room for the pod.

    None of the ledger's own sums is used. The sum is over pods that hold room, pods whose binding is in flight, and
    nominated pods of other schedulers with the same or a higher priority, for which the room of the pods that they
    preempt is kept.
    """
    pod, host = snapshot.pods.get(uid), snapshot.nodes.get(node)
    if pod is None or pod.node or host is None:
        return ""
    flying = {other for gang in snapshot.gangs.values() for other, to in gang.in_flight.items() if to == node} | {uid}
    there = [other for other in snapshot.pods.values() if other.holds_room and other.node == node]
    coming = [other for other in map(snapshot.pods.get, flying) if other is not None and not other.node]
    used = total(other.requests for other in (*there, *coming)) + _promised(snapshot, pod, node)
    return "" if used.fits(host.allocatable) else f"where {used} of {host.allocatable} would be taken"


def _promised(snapshot: Snapshot, pod: Pod, node: str) -> Resources:
    claims = [
        other.requests
        for other in snapshot.pods.values()
        if other.nominated == node and other.priority >= pod.priority
        and not (other.opted_in or other.node or other.ended or other.terminating)
    ]  # fmt: skip
    if not claims:
        return NOTHING
    victims = total(
        other.requests
        for other in snapshot.pods.values()
        if other.preempted and other.holds_room and other.node == node
    )
    rest = total(claims) - victims
    return Resources({name: amount for name, amount in rest.amounts.items() if amount > 0})


class HeardRefusals:
    """Checks S18: if kube-scheduler's plugins refuse a member, the member's plan is changed within HEARD_SECONDS."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        self._violated = violated
        self._before: dict[tuple[str, int], Snapshot] = {}
        # pod's UID -> the plan and node of the refused member, and the time since which it is refused
        self._unheard: dict[str, tuple[Planned, float]] = {}

    def stepped(self, extender: ExtenderProcess) -> None:
        """After a step of a process, check the members that kube-scheduler's plugins have refused."""
        who = extender.name, extender.incarnation
        snapshot = extender.live.ledger.snapshot
        before, self._before[who] = self._before.get(who), snapshot
        if before is None:
            return
        for uid, pod in snapshot.pods.items():
            known = before.pods.get(uid)
            if known is not None and known is not pod and not known.refused and is_turned_away(pod):
                planned = _planned(before, known)
                if planned is not None and planned == _planned(snapshot, pod):
                    self._unheard.setdefault(uid, (planned, loop_time()))
        self._check(snapshot)

    def _check(self, snapshot: Snapshot) -> None:
        for uid, (planned, since) in list(self._unheard.items()):
            pod = snapshot.pods.get(uid)
            if pod is None or not is_turned_away(pod) or _planned(snapshot, pod) != planned:
                del self._unheard[uid]
            elif loop_time() - since > HEARD_SECONDS:
                del self._unheard[uid]
                self._violated(
                    f"{pod.name} keeps its place on {planned[1]}, of which kube-scheduler says: {pod.refusal}"
                )


def _planned(snapshot: Snapshot, pod: Pod) -> Planned | None:
    """Return the plan and node of a member whose bind is neither held nor in flight; None for another pod."""
    gang = snapshot.gang(pod.job_uid) if pod.job_uid else None
    if gang is None or pod.slot is None or gang.state not in ADMITTED or gang.waits_for:
        return None
    node = gang.nodes.get(pod.slot)
    return (gang.plan, node) if node and pod.uid not in gang.held and pod.uid not in gang.in_flight else None
