"""Pods that name their owner (a job or a pod group) by its object's name: which slot each pod has, and each group's
gang.

The index remembers what it has seen, because such a pod may come before its owner and has no number of its own. After a
restart everything in it is found again from the API: a bound pod's slot is written in its annotation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from extender.kube.family import Family, Kin
from extender.kube.gathered import allot_group, gang_of, waiting_of
from extender.kube.membership import Claim
from extender.kube.places import allot
from policy.cluster.events import Event, JobGone, JobSeen, PodSeen
from policy.cluster.model import WORKER, Job, Pod, Slot


class Families:
    """The pods of all owners, by the owner that they name."""

    def __init__(self) -> None:
        self._families: dict[Claim, Family] = {}
        self._claims: dict[str, Claim] = {}

    def see_job(self, claim: Claim, job: Job, *, least: int | None = None, allots: bool = False) -> list[Event]:
        """Return the events of a job or group that was added or changed; ``least`` is a group's minimum of pods."""
        family = self._families.setdefault(claim, Family())
        family.job, family.least, family.allots = job, least, allots
        return list(_tell(family))

    def lose_job(self, claim: Claim) -> list[Event]:
        """Return the events of an owner that was deleted: its pods have no job until another owner of that name
        comes.
        """
        family = self._families.get(claim)
        if family is None or family.job is None:
            return []
        gone = [JobGone(family.job.uid)] if family.least is not None else []
        family.job = family.gang = None
        family.places.clear()
        events = [*gone, *_tell(family)]
        self._forget_empty(claim, family)
        return events

    def see_pod(self, claim: Claim, kin: Kin) -> list[Event]:
        """Return the events of a pod that was added or changed: one for the pod itself, and for others whose slot has
        changed.
        """
        uid = kin.pod.uid
        family = self._families.setdefault(claim, Family())
        self._claims[uid] = claim
        if (family.allots or family.least) and _is_bound_by_now(family.kin.get(uid), kin):
            # the leader that has bound the pod has numbered it, and a follower may have numbered it otherwise
            family.places.pop(uid, None)
        family.kin[uid] = kin
        return list(_tell(family, news=uid))

    def leave(self, uid: str, claim: Claim | None) -> list[Event]:
        """Return the events of a pod that now names another owner than before, or none."""
        return self.lose_pod(uid) if self._claims.get(uid, claim) != claim else []

    def lose_pod(self, uid: str) -> list[Event]:
        """Return the events for the other pods of its owner after a pod is gone."""
        claim = self._claims.pop(uid, None)
        if claim is None:
            return []
        family = self._families[claim]
        kin, told = family.kin.pop(uid), family.told.pop(uid, None)
        family.places.pop(uid, None)
        was_lone = kin.lone is not None and told is not None and told.job_uid == kin.lone.uid
        events = [*([JobGone(kin.lone.uid)] if was_lone and kin.lone else []), *_tell(family)]
        self._forget_empty(claim, family)
        return events

    def _forget_empty(self, claim: Claim, family: Family) -> None:
        if family.job is None and not family.kin:
            del self._families[claim]


def _is_bound_by_now(before: Kin | None, kin: Kin) -> bool:
    """Tell whether the slot that the pod's binding wrote is seen for the first time."""
    return kin.wish is not None and bool(kin.pod.node) and (before is None or not before.pod.node)


def _tell(family: Family, news: str = "") -> Iterator[Event]:
    """Yield what has changed: the gang, then its pods; the pod ``news`` is yielded also where nothing has changed."""
    job = family.job
    if job is not None and family.least is not None:
        # All pods of a malformed group are its members, so that none is bound by itself.
        least = max(1, len(family.live())) if job.invalid else family.least
        if least:
            allot_group(family, least)
        else:
            family.places.clear()
        job = gang_of(family, job, least)
        yield from _tell_gang(family, job if least else None)
    elif job is not None and family.allots:
        allot(family, job.worker.replicas if job.worker else 0)
    waiting = waiting_of(family)
    for uid, kin in family.kin.items():
        pod, before = _as_member(family, uid, kin, job, waiting), family.told.get(uid)
        if pod != before or uid == news:
            family.told[uid] = pod
            yield from _tell_pod(kin.lone, before, pod)


def _tell_gang(family: Family, gang: Job | None) -> Iterator[Event]:
    """Yield the events of a group's gang; a group that had finished and has pods again is a new gang of the same
    name.
    """
    before = family.gang
    if gang == before:
        return
    family.gang = gang
    if before is not None and (gang is None or (before.finished and not gang.finished)):
        yield JobGone(before.uid)
    if gang is not None:
        yield JobSeen(gang)


def _tell_pod(lone: Job | None, before: Pod | None, pod: Pod) -> Iterator[Event]:
    """Yield the events of a pod as it is now, and of the gang of one pod that it is or was."""
    if lone is not None and pod.job_uid == lone.uid:
        yield JobSeen(lone)
    elif lone is not None and before is not None and before.job_uid == lone.uid:
        yield JobGone(lone.uid)
    yield PodSeen(pod)


def _is_of_a_former_one(family: Family, kin: Kin, job: Job) -> bool:
    """Tell whether the pod belongs to a deleted JobSet of the same name: it is older than the JobSet that it names.

    A Deployment may have been given older pods (``--cascade=orphan``), and a group's pods come before the group.
    """
    return family.least is None and not family.allots and kin.pod.since < job.arrival


def _as_member(family: Family, uid: str, kin: Kin, job: Job | None, waiting: Mapping[str, Slot]) -> Pod:
    """Return the pod with its job and slot, or without a job where its owner is not known."""
    if job is None or _is_of_a_former_one(family, kin, job):
        return kin.pod
    slot = family.places.get(uid) or kin.slot
    if family.least is not None and slot is None and kin.lone is not None:
        slot = waiting.get(uid)
        if slot is None and (kin.stays or not family.least):
            return replace(kin.pod, job_uid=kin.lone.uid, slot=Slot(WORKER, 0))
    numbered = kin.wish if family.allots else None
    return replace(kin.pod, job_uid=job.uid, slot=slot, owner=job.name, numbered=numbered)
