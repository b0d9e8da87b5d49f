"""Pods that name their job, by its object's name: which of the job's places each has, and the gang that a group is.

It remembers what it has seen, because such a pod may come before its job, and has no number of its own. Everything that
it says is found again from the API after a restart: a bound pod's place stands in its annotation.
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
    """All of them, by what their pods name."""

    def __init__(self) -> None:
        self._families: dict[Claim, Family] = {}
        self._claims: dict[str, Claim] = {}

    def see_job(self, claim: Claim, job: Job, *, least: int | None = None, allots: bool = False) -> list[Event]:
        """The job or group was added or changed; ``least`` is a group's minimum of pods."""
        family = self._families.setdefault(claim, Family())
        family.job, family.least, family.allots = job, least, allots
        return list(_tell(family))

    def lose_job(self, claim: Claim) -> list[Event]:
        """It was deleted: its pods are nobody's until another one of that name comes."""
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
        """A pod was added or changed; it is told of in any case, others where their place is another one now."""
        uid = kin.pod.uid
        family = self._families.setdefault(claim, Family())
        self._claims[uid] = claim
        if (family.allots or family.least) and _is_bound_by_now(family.kin.get(uid), kin):
            family.places.pop(uid, None)  # whoever has bound it has numbered it; where we follow, perhaps otherwise
        family.kin[uid] = kin
        return list(_tell(family, news=uid))

    def leave(self, uid: str, claim: Claim | None) -> list[Event]:
        """The pod names that job now, or none: what changes where it was until now."""
        return self.lose_pod(uid) if self._claims.get(uid, claim) != claim else []

    def lose_pod(self, uid: str) -> list[Event]:
        """A pod is gone; what that changes for the others."""
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
    """Whether the number that its binding wrote is seen for the first time."""
    return kin.wish is not None and bool(kin.pod.node) and (before is None or not before.pod.node)


def _tell(family: Family, news: str = "") -> Iterator[Event]:
    """What has changed: the gang, then its pods; of ``news`` in any case."""
    job = family.job
    if job is not None and family.least is not None:
        # All pods of a malformed group are its members: none is bound by itself.
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
    """A group that had finished, and has pods again, is a new gang of the same name."""
    before = family.gang
    if gang == before:
        return
    family.gang = gang
    if before is not None and (gang is None or (before.finished and not gang.finished)):
        yield JobGone(before.uid)
    if gang is not None:
        yield JobSeen(gang)


def _tell_pod(lone: Job | None, before: Pod | None, pod: Pod) -> Iterator[Event]:
    """A pod as it is now, and the gang of one that it is or was."""
    if lone is not None and pod.job_uid == lone.uid:
        yield JobSeen(lone)
    elif lone is not None and before is not None and before.job_uid == lone.uid:
        yield JobGone(lone.uid)
    yield PodSeen(pod)


def _is_of_a_former_one(family: Family, kin: Kin, job: Job) -> bool:
    """Whether the pod is older than the JobSet that it names: one of that name was deleted, and its pods not yet.

    A Deployment may have been given pods that are older (``--cascade=orphan``), and a group's pods come before it.
    """
    return family.least is None and not family.allots and kin.pod.since < job.arrival


def _as_member(family: Family, uid: str, kin: Kin, job: Job | None, waiting: Mapping[str, Slot]) -> Pod:
    if job is None or _is_of_a_former_one(family, kin, job):
        return kin.pod
    slot = family.places.get(uid) or kin.slot
    if family.least is not None and slot is None and kin.lone is not None:
        slot = waiting.get(uid)
        if slot is None and (kin.stays or not family.least):
            return replace(kin.pod, job_uid=kin.lone.uid, slot=Slot(WORKER, 0))
    numbered = kin.wish if family.allots else None
    return replace(kin.pod, job_uid=job.uid, slot=slot, owner=job.name, numbered=numbered)
