"""Pods that name their job, by its object's name: which of the job's places each has, and the gang that a group is.

It remembers what it has seen, because such a pod may come before its job, and has no number of its own. Everything that
it says is found again from the API after a restart: a bound pod's place stands in its annotation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from extender.kube.membership import Claim
from policy.cluster.events import Event, JobGone, JobSeen, PodSeen
from policy.cluster.model import WORKER, Job, Phase, Pod, Role, Slot
from policy.cluster.resources import NOTHING


@dataclass(frozen=True, slots=True)
class Kin:
    """One pod: ``slot`` as it tells it itself; ``role``: what it asks for, and the role that it says it has.

    ``wish``: the slot in which it was bound. ``lone``: the gang of one that it is where its group needs no more.
    """

    pod: Pod
    slot: Slot | None = None
    role: Role | None = None
    wish: Slot | None = None
    lone: Job | None = None
    invalid: str = ""
    replaced: bool = True

    @property
    def stays(self) -> bool:
        """Whether it is there to take a place: a failed or deleted one leaves it to its successor."""
        return self.pod.phase is not Phase.FAILED and not self.pod.terminating


@dataclass(slots=True)
class Family:
    """The pods that name one job. ``job``: as its object states it; ``least``: of a group, the pods that it needs."""

    job: Job | None = None
    least: int | None = None
    allots: bool = False
    kin: dict[str, Kin] = field(default_factory=dict)
    places: dict[str, Slot] = field(default_factory=dict)
    told: dict[str, Pod] = field(default_factory=dict)
    gang: Job | None = None


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
        if family.allots and _is_bound_by_now(family.kin.get(uid), kin):
            family.places.pop(uid, None)  # whoever has bound it has numbered it; where we follow, perhaps otherwise
        family.kin[uid] = kin
        family.told.pop(uid, None)
        return list(_tell(family))

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


def _tell(family: Family) -> Iterator[Event]:
    """What has changed: the gang, then its pods."""
    job = family.job
    if job is not None and family.least is not None:
        # All pods of a malformed group are its members: none is bound by itself.
        least = max(1, len(_live(family))) if job.invalid else family.least
        if least:
            _allot_group(family, least)
        else:
            family.places.clear()
        job = _gang_of(family, job, least)
        yield from _tell_gang(family, job if least else None)
    elif job is not None and family.allots:
        _allot(family, job.worker.replicas if job.worker else 0)
    for uid, kin in family.kin.items():
        yield from _tell_pod(family, uid, kin, job)


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


def _tell_pod(family: Family, uid: str, kin: Kin, job: Job | None) -> Iterator[Event]:
    pod = _as_member(family, uid, kin, job)
    before = family.told.get(uid)
    if pod == before:
        return
    family.told[uid] = pod
    if kin.lone is not None and pod.job_uid == kin.lone.uid:
        yield JobSeen(kin.lone)
    elif kin.lone is not None and before is not None and before.job_uid == kin.lone.uid:
        yield JobGone(kin.lone.uid)
    yield PodSeen(pod)


def _as_member(family: Family, uid: str, kin: Kin, job: Job | None) -> Pod:
    if job is None:
        return kin.pod
    slot = family.places.get(uid) or kin.slot
    if family.least is not None and slot is None and kin.lone is not None:
        return replace(kin.pod, job_uid=kin.lone.uid, slot=Slot(WORKER, 0))
    numbered = kin.wish if family.allots else None
    return replace(kin.pod, job_uid=job.uid, slot=slot, owner=job.name, numbered=numbered)


# -- places --------------------------------------------------------------------------------------


def _allot(family: Family, count: int) -> None:
    """A number for each pod of a job whose pods have none: 0 to ``count`` - 1 as soon as there are no more of them."""
    live = _live(family)
    _settle(family, live, dict.fromkeys(live, WORKER))
    if len(live) <= count:
        _close_gaps(family, live, WORKER, count)


def _allot_group(family: Family, least: int) -> None:
    """Members until there are so many; who is one stays one, but where fewer are needed than before it began.

    The others are gangs of one.
    """
    live = _live(family)
    members = [uid for uid in live if uid in family.places]
    spare = [uid for uid in members if not family.kin[uid].pod.node]
    for uid in spare[::-1][: max(0, len(members) - least)]:
        members.remove(uid)
        del family.places[uid]
    members += [uid for uid in live if uid not in family.places][: max(0, least - len(members))]
    roles = {uid: _role(family.kin[uid]) for uid in members}
    _settle(family, members, roles)
    for role in sorted(set(roles.values())):
        uids = [uid for uid in members if roles[uid] == role]
        _close_gaps(family, uids, role, len(uids))


def _live(family: Family) -> list[str]:
    """Pods that can have a place, the bound ones first, then by age."""
    pods = [kin.pod for kin in family.kin.values() if kin.stays]
    return [pod.uid for pod in sorted(pods, key=lambda pod: (not pod.node, pod.since, pod.name))]


def _role(kin: Kin) -> str:
    return kin.role.name if kin.role is not None else WORKER


def _settle(family: Family, uids: list[str], roles: Mapping[str, str]) -> None:
    """A place for each that has none: the one in which it was bound, else the first that is free.

    Whoever is there without having been bound in it gives way, as it would after a restart.
    """
    wanted = {uid: family.kin[uid].wish for uid in uids if family.kin[uid].pod.node and family.kin[uid].wish}
    taken = {slot: uid for uid in uids if (slot := family.places.get(uid)) is not None}
    homeless = deque(uid for uid in uids if uid not in family.places)
    while homeless:
        uid = homeless.popleft()
        wish = wanted.get(uid)
        if wish is None or wish.role != roles[uid]:
            continue
        holder = taken.get(wish)
        if holder is None or wanted.get(holder) != wish:
            if holder is not None:
                del family.places[holder]
                homeless.append(holder)
            family.places[uid], taken[wish] = wish, uid
    for uid in uids:
        if uid not in family.places:
            slot = _first_free(roles[uid], taken)
            family.places[uid], taken[slot] = slot, uid


def _close_gaps(family: Family, uids: list[str], role: str, count: int) -> None:
    """Where a pod in the middle went for good, the last one takes its place; the controller writes it on the pod."""
    taken = {family.places[uid]: uid for uid in uids}
    for slot in sorted((slot for slot in taken if slot.index >= count), reverse=True):
        uid, free = taken.pop(slot), _first_free(role, taken)
        family.places[uid], taken[free] = free, uid


def _first_free(role: str, taken: Mapping[Slot, str]) -> Slot:
    return next(slot for index in range(len(taken) + 1) if (slot := Slot(role, index)) not in taken)


# -- a group as a gang ---------------------------------------------------------------------------


def _gang_of(family: Family, group: Job, least: int) -> Job:
    """The members' roles as a rigid gang. Pods that are not there are missing workers, but of a gang that has started:
    the minimum counts when it starts, and nobody says that another pod will come.
    """
    places = sorted(family.places, key=family.places.__getitem__)
    members = [family.kin[uid] for uid in places if family.kin[uid].stays]
    started = bool(members) and all(kin.pod.node or kin.pod.ended for kin in members)
    missing = 0 if started else max(0, least - len(members))
    roles, invalid = _roles(members, missing)
    workers = next((role.replicas for role in roles if role.name == WORKER), 0)
    over = all(kin.pod.ended for kin in family.kin.values())
    had = family.gang
    return replace(
        group,
        roles=roles,
        min_workers=workers,
        max_workers=workers,
        invalid=group.invalid or next((kin.invalid for kin in members if kin.invalid), invalid),
        finished=over and (started or (had is not None and had.finished)),
        replaced=all(kin.replaced for kin in members),
        # Never less than was told, though the newest pod is gone: the ledger would take it for old news.
        version=max([group.version, had.version if had else 0, *(kin.pod.version for kin in family.kin.values())]),
    )


def _roles(members: list[Kin], missing: int) -> tuple[tuple[Role, ...], str]:
    """One role for all that say the same: each of its places is large enough for any of them."""
    found: dict[str, Role] = {}
    for kin in members:
        role = kin.role or Role(WORKER, 1, NOTHING)
        known = found.get(role.name)
        if known is not None and known.constraints != role.constraints:
            why = f"pod {kin.pod.name}: its node selector, affinity or tolerations are not those of the other pods"
            return (known,), f"{why} of role {role.name}; allowed: the same, or another role by its label"
        found[role.name] = role if known is None else _larger(known, role)
    if missing or not found:
        short = WORKER if WORKER in found or not found else max(found, key=lambda name: found[name].replicas)
        known = found.get(short, Role(short, 0, NOTHING))
        found[short] = replace(known, replicas=known.replicas + missing)
    return tuple(found[name] for name in sorted(found)), ""


def _larger(one: Role, other: Role) -> Role:
    most = one.requests.or_more(other.requests)
    unsupported = tuple(dict.fromkeys((*one.unsupported, *other.unsupported)))
    return replace(one, replicas=one.replicas + 1, requests=most, unsupported=unsupported)
