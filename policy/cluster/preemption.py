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
from policy.cluster.pod import Pod
from policy.cluster.resources import NOTHING, Resources, total

# The room of a victim is kept for VACATED_SECONDS after its end, because the preemptor's nomination may be seen later.
VACATED_SECONDS = 5.0


class Claim(NamedTuple):
    """A foreign pod that its scheduler has nominated for a node, and that is not bound yet."""

    uid: str
    priority: int
    requests: Resources


class Victim(NamedTuple):
    """A pod that another scheduler preempts and that still holds its room."""

    uid: str
    requests: Resources


class Vacated(NamedTuple):
    """The room of a victim that is gone, which is kept for its preemptor until ``until`` (seconds since the epoch)."""

    requests: Resources
    until: float


@quick
@dataclass(frozen=True, slots=True)
class Preemption:
    """The room on one node that other schedulers have promised to preemptors, which are not bound yet.

    claims: the nominated preemptors, sorted by uid. victims: the preempted pods that still hold room, sorted by uid.
    vacated: the room of victims that are gone, sorted by time.
    """

    claims: tuple[Claim, ...] = ()
    victims: tuple[Victim, ...] = ()
    vacated: tuple[Vacated, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.claims or self.victims or self.vacated)

    def taken(self, priority: int | None = None) -> Resources:
        """Return the promised room that a pod of that priority may not use; room that bound pods hold is left out.

        It is the sum of the claims of the same or a higher priority (all claims, if ``priority`` is None), less what
        victims still hold. If victims that are gone have vacated more than that, the vacated room is returned, because
        a nomination is then still to come.
        """
        claimed = total(claim.requests for claim in self.claims if priority is None or claim.priority >= priority)
        rest = claimed - total(victim.requests for victim in self.victims)
        vacated = total(gone.requests for gone in self.vacated)
        names = rest.amounts.keys() | vacated.amounts.keys()
        return Resources({name: most for name in names if (most := max(rest[name], vacated[name])) > 0})

    def outranked(self, priority: int) -> Resources:
        """Return the room that is promised only to preemptors of a lower priority, so that a pod of that priority may
        use it.
        """
        return self.taken() - self.taken(priority)

    def seen(self, node: str, old: Pod | None, new: Pod | None, until: float) -> Preemption:
        """Return the promises on ``node`` after a pod has changed from ``old`` to ``new``.

        ``old`` is None for a new pod, ``new`` for a deleted one. If the pod is a victim that has just gone, its room is
        kept until ``until`` (seconds since the epoch).
        """
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
        """Return the promises after a preemptor with these requests was bound or has given up its claim.

        As much vacated room as the preemptor asks for is dropped, the oldest first: it was vacated for this preemptor.
        """
        left, rest = requests, list(self.vacated)
        while rest and any(amount > 0 for amount in left.amounts.values()):
            left = left - rest.pop(0).requests
        return replace(self, vacated=tuple(rest)) if len(rest) != len(self.vacated) else self

    def by(self, now: float) -> Preemption:
        """Return the promises without the vacated room that is kept only until ``now`` or earlier."""
        left = tuple(gone for gone in self.vacated if gone.until > now)
        return self if len(left) == len(self.vacated) else replace(self, vacated=left)


NOTHING_PROMISED = Preemption()
Preemptions = Mapping[str, Preemption]  # The keys of Preemptions are names of nodes.
E = TypeVar("E", Claim, Victim)


def concerns(*pods: Pod | None) -> set[str]:
    """Return the names of the nodes on which one of these pods has a claim or is a victim."""
    found = set[str]()
    for pod in pods:
        if pod is not None and pod.claims:
            found.add(pod.nominated)
        if pod is not None and pod.preempted and pod.holds_room:
            found.add(pod.node)
    return found


def outranked(promised: Preemptions, priority: int) -> dict[str, Resources]:
    """Return, by node, the room that is promised only to preemptors of a lower priority, so that a pod of that priority
    may use it (``Preemption.outranked``).
    """
    found = {node: one.outranked(priority) for node, one in promised.items() if one.claims}
    return {node: room for node, room in found.items() if room}


def taken_on(promised: Preemptions, node: str, priority: int | None = None) -> Resources:
    """Return the room on the node that another scheduler has promised to its preemptors and that a pod of that priority
    may not use (``Preemption.taken``).
    """
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
    """Return the entries, sorted by uid, with the entry of pod ``uid`` replaced by ``left`` (None: removed)."""
    found: list[E] = [one for one in known if one.uid != uid]
    found += [left] if left is not None else []
    return tuple(sorted(found, key=attrgetter("uid")))
