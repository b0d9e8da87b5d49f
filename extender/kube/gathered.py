"""Makes one gang of a pod group: which pods are its members, what they request, and which pods wait until they run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

from extender.kube.family import Family, Kin
from extender.kube.places import close_gaps, settle
from policy.cluster.model import WORKER, Job, Role, Slot
from policy.cluster.resources import NOTHING


def allot_group(family: Family, least: int) -> None:
    """Assign slots to a group's members.

    Pods that were bound as members are members. Others become members as long as the minimum needs more of them: first
    those that hold room on a node, then those that wait. A restart finds the same members again, except that among
    waiting pods a member stays a member. All other pods are gangs of one pod, once the members run.
    """
    live = family.live()
    sure = {uid for uid in live if _was_member(family.kin[uid])}
    others = sorted((uid for uid in live if uid not in sure), key=partial(_comes_first, family))
    chosen = sure.union(others[: max(0, least - len(sure))])
    for uid in others:
        if uid not in chosen:
            family.places.pop(uid, None)
    members = [uid for uid in live if uid in chosen]
    roles = {uid: family.kin[uid].named for uid in members}
    settle(family, members, roles, Counter(roles.values()))
    for role in sorted(set(roles.values())):
        uids = [uid for uid in members if roles[uid] == role]
        close_gaps(family, uids, role, len(uids))


def _was_member(kin: Kin) -> bool:
    """Tell whether the pod was bound as a member: a gang of one pod has no slot written on it."""
    return bool(kin.pod.node) and kin.wish is not None


def _comes_first(family: Family, uid: str) -> tuple[bool, bool]:
    """Return the sort key of pods that may become members.

    Among bound pods those of another scheduler come first, because ours are known not to be members. Among the others
    the present members come first.
    """
    pod = family.kin[uid].pod
    return not pod.node, bool(pod.plan) if pod.node else uid not in family.places


def waiting_of(family: Family) -> dict[str, Slot]:
    """Return slots behind those of the members for pods beyond a group's minimum that may not be scheduled alone yet.

    Before the members run, such pods would hold room that the members may need, for a job that has not started.
    """
    if (family.least or 0) < 2 or _has_started(members := family.members()):
        return {}
    roles, slots = Counter(kin.named for kin in members), dict[str, Slot]()
    for uid in family.live():
        if uid not in family.places and not family.kin[uid].pod.node:
            role = family.kin[uid].named
            slots[uid] = Slot(role, roles[role])
            roles[role] += 1
    return slots


def _has_started(members: list[Kin]) -> bool:
    return bool(members) and all(kin.pod.node or kin.pod.ended for kin in members)


def gang_of(family: Family, group: Job, least: int) -> Job:
    """Return the members' roles as a rigid gang.

    Pods that do not exist yet are counted as missing workers until the gang has started. After that they are not: the
    minimum counts at the start, and nothing says that another pod will come.
    """
    members = family.members()
    started = _has_started(members)
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
        finished=over and (bool(family.kin) or (had is not None and had.finished)),
        replaced=all(kin.replaced for kin in members),
        # The version never decreases, even when the newest pod is gone: the ledger ignores a lower version as outdated.
        version=max([group.version, had.version if had else 0, *(kin.pod.version for kin in family.kin.values())]),
    )


def _roles(members: list[Kin], missing: int) -> tuple[tuple[Role, ...], str]:
    """Return one role for all members of the same role name, sized so that each slot fits any of them; and why that
    fails.
    """
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
