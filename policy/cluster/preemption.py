"""Room that another scheduler has promised to pods which are not bound yet, node by node.

kube-scheduler preempts in three steps that the API shows: it marks the victims (condition DisruptionTarget), deletes
them, and nominates the preemptor (``status.nominatedNodeName``). Until the preemptor is bound, pods of equal or lower
priority must leave that room alone, as kube-scheduler's own filters do (RunFilterPluginsWithNominatedPods).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple, TypeVar

from policy.cluster.frozen import quick, replace
from policy.cluster.model import Pod
from policy.cluster.resources import NOTHING, Resources, total

# For so long the room of a victim that is gone is kept for a preemptor whose nomination has not been shown yet.
VACATED_SECONDS = 5.0


class Claim(NamedTuple):
    """A pod that did not opt in and is nominated for a node."""

    uid: str
    priority: int
    requests: Resources


class Victim(NamedTuple):
    """A pod that is being preempted and still holds its room."""

    uid: str
    requests: Resources


class Vacated(NamedTuple):
    """Room of a victim that is gone; kept until that time (seconds since the epoch)."""

    requests: Resources
    until: float


@quick
@dataclass(frozen=True, slots=True)
class Preemption:
    """What is promised on one node. ``claims`` and ``victims`` are in order of their uids, ``vacated`` of time."""

    claims: tuple[Claim, ...] = ()
    victims: tuple[Victim, ...] = ()
    vacated: tuple[Vacated, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.claims or self.victims or self.vacated)

    def taken(self, priority: int | None = None) -> Resources:
        """Return the room that no pod of that priority may have, beyond what bound pods hold.

        That is the claims, less what the victims hold that are still to go for them. Where more has been vacated than
        is claimed, a nomination is still to come. None: whatever the priority.
        """
        claimed = total(claim.requests for claim in self.claims if priority is None or claim.priority >= priority)
        rest = claimed - total(victim.requests for victim in self.victims)
        vacated = total(gone.requests for gone in self.vacated)
        names = rest.amounts.keys() | vacated.amounts.keys()
        return Resources({name: most for name in names if (most := max(rest[name], vacated[name])) > 0})

    def outranked(self, priority: int) -> Resources:
        """Return what of the taken room a pod of that priority may have all the same."""
        return self.taken() - self.taken(priority)

    def seen(self, node: str, old: Pod | None, new: Pod | None, until: float) -> Preemption:
        """Return the preemption once the pod has changed from ``old`` to ``new``; None: it is not there."""
        found = self
        uid = new.uid if new is not None else old.uid if old is not None else ""
        if _claims(old, node) or _claims(new, node):
            left = _claim_of(new) if _claims(new, node) else None
            found = replace(found, claims=_but(found.claims, uid, left))
        if _suffers(old, node) or _suffers(new, node):
            still = Victim(uid, new.requests) if new is not None and _suffers(new, node) else None
            found = replace(found, victims=_but(found.victims, uid, still))
        if old is not None and _suffers(old, node) and not (new is not None and new.holds_room):
            found = replace(found, vacated=(*found.vacated, Vacated(old.requests, until)))
        if old is not None and _claims(old, node) and not _claims(new, node):
            found = found._spent(old.requests)
        return found

    def _spent(self, requests: Resources) -> Preemption:
        """Return the preemption once a preemptor is bound or will not come any more.

        What was vacated first was for it.
        """
        left, rest = requests, list(self.vacated)
        while rest and any(amount > 0 for amount in left.amounts.values()):
            left = left - rest.pop(0).requests
        return replace(self, vacated=tuple(rest)) if len(rest) != len(self.vacated) else self

    def by(self, now: float) -> Preemption:
        """Return the preemption without what has been kept for long enough."""
        left = tuple(gone for gone in self.vacated if gone.until > now)
        return self if len(left) == len(self.vacated) else replace(self, vacated=left)


NOTHING_PROMISED = Preemption()
Preemptions = Mapping[str, Preemption]  # by node
E = TypeVar("E", Claim, Victim)


def concerns(*pods: Pod | None) -> set[str]:
    """Return the nodes on which such a pod has a claim or is a victim."""
    found = set[str]()
    for pod in pods:
        if pod is not None and pod.claims:
            found.add(pod.nominated)
        if pod is not None and pod.preempted and pod.holds_room:
            found.add(pod.node)
    return found


def outranked(promised: Preemptions, priority: int) -> dict[str, Resources]:
    """Return, by node, the room promised to pods that a pod of that priority need not wait for."""
    found = {node: one.outranked(priority) for node, one in promised.items() if one.claims}
    return {node: room for node, room in found.items() if room}


def taken_on(promised: Preemptions, node: str, priority: int | None = None) -> Resources:
    """Return what is promised on that node to pods that a pod of that priority must wait for; None: to any."""
    return promised[node].taken(priority) if node in promised else NOTHING


def preemptors(promised: Preemptions, pods: Mapping[str, Pod], nodes: Iterable[str]) -> tuple[str, ...]:
    """Return the pods of other schedulers (namespace/name) that are nominated for these nodes and not bound yet."""
    uids = {claim.uid for node in nodes if node in promised for claim in promised[node].claims}
    found = (pods[uid] for uid in uids if uid in pods)
    return tuple(sorted(f"{pod.namespace}/{pod.name}" for pod in found))


def _claims(pod: Pod | None, node: str) -> bool:
    return pod is not None and pod.claims and pod.nominated == node


def _suffers(pod: Pod | None, node: str) -> bool:
    return pod is not None and pod.preempted and pod.holds_room and pod.node == node


def _claim_of(pod: Pod | None) -> Claim | None:
    return Claim(pod.uid, pod.priority, pod.requests) if pod is not None else None


def _but(known: tuple[E, ...], uid: str, left: E | None) -> tuple[E, ...]:
    """Return the entries without the pod's, and with what is left of it."""
    found: list[E] = [one for one in known if one.uid != uid]
    found += [left] if left is not None else []
    return tuple(sorted(found, key=attrgetter("uid")))
