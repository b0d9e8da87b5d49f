"""Keeps the pods that state only the name of their owner (a job or a pod group), with their slots and the gangs of pod
groups.

Kohort must remember these pods, because a pod may be seen before its owner, and may have no index in its name. After a
restart of Kohort all of this is found again from the API: a bound pod's slot is written in an annotation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from extender.kube.membership import OwnerName
from extender.kube.ownedpods import OwnedPod, OwnedPods, assign_slots
from extender.kube.podgroupgang import assign_group_slots, gang_of, waiting_slots
from policy.cluster.events import Event, JobGone, JobSeen, PodSeen
from policy.cluster.job import WORKER, Job, Slot
from policy.cluster.pod import Pod


class OwnerIndex:
    """Knows the pods of all owners (jobs and pod groups) by the owner's name, and returns the events for the ledger
    that each change causes.

    An argument ``claim`` is the owner's name as the pod states it. A method returns events for all pods of that owner
    whose job or slot has changed.
    """

    def __init__(self) -> None:
        self._owners: dict[OwnerName, OwnedPods] = {}
        self._claims: dict[str, OwnerName] = {}

    def add_owner(
        self, claim: OwnerName, job: Job, *, least: int | None = None, assigns_slots: bool = False
    ) -> list[Event]:
        """Store a job or pod group that was added or changed, and return the events for the ledger that follow.

        ``claim``: the owner's name. ``job``: the job; for a pod group, the pod group as a job without roles. ``least``:
        the pod group's minimum number of pods, None for a job. ``assigns_slots``: whether the job's pods have no index,
        so that Kohort assigns their slots.
        """
        owned = self._owners.setdefault(claim, OwnedPods())
        owned.job, owned.least, owned.assigns_slots = job, least, assigns_slots
        return list(_events(owned))

    def remove_owner(self, claim: OwnerName) -> list[Event]:
        """Forget a job or pod group that was deleted, and return the events for the ledger that follow.

        ``claim``: the owner's name. The owner's pods have no job until another owner of that name is added.
        """
        owned = self._owners.get(claim)
        if owned is None or owned.job is None:
            return []
        gone = [JobGone(owned.job.uid)] if owned.least is not None else []
        owned.job = owned.gang = None
        owned.slots.clear()
        events = [*gone, *_events(owned)]
        self._forget_empty(claim, owned)
        return events

    def add_pod(self, claim: OwnerName, member: OwnedPod) -> list[Event]:
        """Store a pod that was added or changed, and return the events for the ledger that follow.

        There is always an event for the pod itself. Further events are for other pods of the same owner whose slots
        have changed with it, and, if the owner is a pod group, for the gang that the pod group forms. ``claim``: the
        name of the pod's owner.
        """
        uid = member.pod.uid
        owned = self._owners.setdefault(claim, OwnedPods())
        self._claims[uid] = claim
        if (owned.assigns_slots or owned.least) and _has_new_binding(owned.pods.get(uid), member):
            # The leader that bound the pod wrote a slot on it; this replica, a follower, may have assigned another one.
            owned.slots.pop(uid, None)
        owned.pods[uid] = member
        return list(_events(owned, news=uid))

    def leave(self, uid: str, claim: OwnerName | None) -> list[Event]:
        """Remove the pod from its former owner, if the pod now names another owner or none (``claim``).

        Return the events for the ledger that follow.
        """
        return self.remove_pod(uid) if self._claims.get(uid, claim) != claim else []

    def remove_pod(self, uid: str) -> list[Event]:
        """Forget a pod that no longer exists, and return the events for the ledger that follow for the other pods of
        its owner.
        """
        claim = self._claims.pop(uid, None)
        if claim is None:
            return []
        owned = self._owners[claim]
        member, published = owned.pods.pop(uid), owned.published.pop(uid, None)
        owned.slots.pop(uid, None)
        was_lone = member.lone is not None and published is not None and published.job_uid == member.lone.uid
        events = [*([JobGone(member.lone.uid)] if was_lone and member.lone else []), *_events(owned)]
        self._forget_empty(claim, owned)
        return events

    def _forget_empty(self, claim: OwnerName, owned: OwnedPods) -> None:
        if owned.job is None and not owned.pods:
            del self._owners[claim]


def _has_new_binding(before: OwnedPod | None, member: OwnedPod) -> bool:
    """Tell whether the pod was bound, with a slot written on it, since it was last read.

    ``before``: the pod as it was last read, None for a pod that is new. ``member``: the pod as it is now.
    """
    return member.bound_slot is not None and bool(member.pod.node) and (before is None or not before.pod.node)


def _events(owned: OwnedPods, news: str = "") -> Iterator[Event]:
    """Assign slots to the pods of one owner (a job or a pod group), and yield an event for each pod that has changed
    since its last event.

    If the owner is a pod group, an event for the gang that it forms comes first, if that gang has changed. ``news``:
    the uid of a pod for which an event is yielded in any case.
    """
    job = owned.job
    if job is not None and owned.least is not None:
        # All pods of a malformed pod group count as its members, so that none of them is bound alone.
        least = max(1, len(owned.live())) if job.invalid else owned.least
        if least:
            assign_group_slots(owned, least)
        else:
            owned.slots.clear()
        job = gang_of(owned, job, least)
        yield from _gang_events(owned, job if least else None)
    elif job is not None and owned.assigns_slots:
        assign_slots(owned, job.worker.replicas if job.worker else 0)
    waiting = waiting_slots(owned)
    for uid, member in owned.pods.items():
        pod, before = _as_member(owned, uid, member, job, waiting), owned.published.get(uid)
        if pod != before or uid == news:
            owned.published[uid] = pod
            yield from _pod_events(member.lone, before, pod)


def _gang_events(owned: OwnedPods, gang: Job | None) -> Iterator[Event]:
    """Yield the events for the gang that a pod group forms, if the gang has changed since its last event.

    ``gang``: the gang as it is now, None if there is none. A pod group that had finished and has pods again forms a new
    gang of the same name.
    """
    before = owned.gang
    if gang == before:
        return
    owned.gang = gang
    if before is not None and (gang is None or (before.finished and not gang.finished)):
        yield JobGone(before.uid)
    if gang is not None:
        yield JobSeen(gang)


def _pod_events(lone: Job | None, before: Pod | None, pod: Pod) -> Iterator[Event]:
    """Yield the event of a pod, and the event of the gang of one pod that it forms or has ceased to form.

    ``lone``: the gang of one pod that the pod would form, None for a pod of a job. ``before``: the pod as its last
    event stated it.
    """
    if lone is not None and pod.job_uid == lone.uid:
        yield JobSeen(lone)
    elif lone is not None and before is not None and before.job_uid == lone.uid:
        yield JobGone(lone.uid)
    yield PodSeen(pod)


def _is_of_deleted_owner(owned: OwnedPods, member: OwnedPod, job: Job) -> bool:
    """Tell whether the pod is older than the JobSet that it names, and so belongs to a deleted JobSet of that name.

    The age says nothing for a Deployment, which may adopt older pods (``--cascade=orphan``), nor for a pod group, whose
    pods may be created before it.
    """
    return owned.least is None and not owned.assigns_slots and member.pod.since < job.arrival


def _as_member(owned: OwnedPods, uid: str, member: OwnedPod, job: Job | None, waiting: Mapping[str, Slot]) -> Pod:
    """Return the pod with its job and slot, or without a job where its owner is not known yet.

    ``waiting``: the slots, by pod uid, of those pods of a pod group that must wait until the members run.
    """
    if job is None or _is_of_deleted_owner(owned, member, job):
        return member.pod
    slot = owned.slots.get(uid) or member.slot
    if owned.least is not None and slot is None and member.lone is not None:
        slot = waiting.get(uid)
        if slot is None and (member.keeps_slot or not owned.least):
            return replace(member.pod, job_uid=member.lone.uid, slot=Slot(WORKER, 0))
    numbered = member.bound_slot if owned.assigns_slots else None
    return replace(member.pod, job_uid=job.uid, slot=slot, owner=job.name, numbered=numbered)
