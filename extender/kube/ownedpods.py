"""Holds what is known of the pods of one owner (a job or a pod group), and assigns slots to pods whose names have no
index.

Such a pod gets the slot that was written on it when it was bound, or else a free slot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from policy.cluster.job import WORKER, Job, Role, Slot
from policy.cluster.pod import Phase, Pod


@dataclass(frozen=True, slots=True)
class OwnedPod:
    """A pod that names its owner, a job or a pod group.

    ``slot``: the slot that the pod's labels state, None where they state none. ``role``: for a pod of a pod group, the
    role that the pod names, with its requests. ``bound_slot``: the slot in which the pod was bound. ``lone``: the gang
    of one pod that the pod forms if the gang of its pod group does not need it. ``invalid``: the reason why the pod's
    spec cannot be planned, empty if it can. ``replaced``: whether a controller creates a new pod when this pod is
    deleted.
    """

    pod: Pod
    slot: Slot | None = None
    role: Role | None = None
    bound_slot: Slot | None = None
    lone: Job | None = None
    invalid: str = ""
    replaced: bool = True

    @property
    def keeps_slot(self) -> bool:
        """Tell whether the pod keeps its slot. A failed or terminating pod does not: a new pod may take the slot."""
        return self.pod.phase is not Phase.FAILED and not self.pod.terminating

    @property
    def role_name(self) -> str:
        """Return the name of the role that the pod states, or ``worker`` where it states none."""
        return self.role.name if self.role is not None else WORKER


@dataclass(slots=True)
class OwnedPods:
    """The pods of one owner, a job or a pod group.

    ``job``: the owner as its API object states it, None while there is no such object. ``least``: the pod group's
    minimum number of pods, None for a job. ``assigns_slots``: whether the pods have no index, so that Kohort assigns
    slots. ``pods``: the pods as they were read, by uid. ``slots``: the slots that Kohort has assigned, by pod uid.
    ``published``: the pods as the last events for the ledger stated them, by uid. ``gang``: the gang of the pod group
    as the last event stated it, None for a job.
    """

    job: Job | None = None
    least: int | None = None
    assigns_slots: bool = False
    pods: dict[str, OwnedPod] = field(default_factory=dict)
    slots: dict[str, Slot] = field(default_factory=dict)
    published: dict[str, Pod] = field(default_factory=dict)
    gang: Job | None = None

    def live(self) -> list[str]:
        """Return the uids of the pods that can have a slot: bound pods before unbound ones, older before younger."""
        pods = [member.pod for member in self.pods.values() if member.keeps_slot]
        return [pod.uid for pod in sorted(pods, key=lambda pod: (not pod.node, pod.since, pod.name))]

    def members(self) -> list[OwnedPod]:
        """Return the pods to which Kohort has assigned a slot, in the order of the slots.

        Failed and terminating pods are left out.
        """
        return [self.pods[uid] for uid in sorted(self.slots, key=self.slots.__getitem__) if self.pods[uid].keeps_slot]


def assign_slots(owned: OwnedPods, count: int) -> None:
    """Assign a worker slot to each pod of a job whose pods have no index.

    ``count``: the job's number of workers. Once there are at most that many pods, their slots are below ``count``.
    """
    live = owned.live()
    keep_or_assign_slots(owned, live, dict.fromkeys(live, WORKER), {WORKER: count})
    if len(live) <= count:
        close_gaps(owned, live, WORKER, count)


def keep_or_assign_slots(
    owned: OwnedPods, uids: list[str], roles: Mapping[str, str], counts: Mapping[str, int]
) -> None:
    """Assign a slot to each pod of ``uids`` that has none: the slot in which it was bound, or the first free slot.

    A pod loses its slot to a pod that was bound in that slot, so that the result is the same as after a restart of
    Kohort. A pod returns to the slot in which it was bound if the job still asks for that slot. ``roles``: the role of
    each pod by uid. ``counts``: the number of slots that the job asks for, by role; their indices begin at 0.
    """
    wanted = {
        uid: bound_slot
        for uid in uids
        if (bound_slot := _slot_of_binding(owned, uid)) is not None and bound_slot.role == roles[uid]
    }
    taken: dict[Slot, str] = {}
    for uid in uids:
        # A late event may show a pod as it was before it terminated, when another pod has got its slot already.
        if (slot := owned.slots.get(uid)) is not None and taken.setdefault(slot, uid) != uid:
            del owned.slots[uid]
    homeless = deque(
        uid
        for uid in uids
        if uid not in owned.slots or (uid in wanted and wanted[uid].index < counts.get(roles[uid], 0))
    )
    while homeless:
        uid = homeless.popleft()
        bound_slot = wanted.get(uid)
        holder = taken.get(bound_slot) if bound_slot is not None else None
        if bound_slot is None or holder == uid or (holder is not None and wanted.get(holder) == bound_slot):
            continue
        if holder is not None:
            del owned.slots[holder]
            homeless.append(holder)
        if (before := owned.slots.get(uid)) is not None:
            del taken[before]
        owned.slots[uid], taken[bound_slot] = bound_slot, uid
    for uid in uids:
        if uid not in owned.slots:
            slot = _first_free(roles[uid], taken)
            owned.slots[uid], taken[slot] = slot, uid


def _slot_of_binding(owned: OwnedPods, uid: str) -> Slot | None:
    """Return the slot that was written on the pod when it was bound; None for an unbound pod or one without a slot."""
    return owned.pods[uid].bound_slot if owned.pods[uid].pod.node else None


def close_gaps(owned: OwnedPods, uids: list[str], role: str, count: int) -> None:
    """Move each pod of ``uids`` whose index is ``count`` or higher into the lowest free slot of the role.

    Only the assignment in ``owned`` changes here; Kohort's controller later writes the new slot on the pod.
    """
    taken = {owned.slots[uid]: uid for uid in uids}
    for slot in sorted((slot for slot in taken if slot.index >= count), reverse=True):
        uid, free = taken.pop(slot), _first_free(role, taken)
        owned.slots[uid], taken[free] = free, uid


def _first_free(role: str, taken: Mapping[Slot, str]) -> Slot:
    return next(slot for index in range(len(taken) + 1) if (slot := Slot(role, index)) not in taken)
