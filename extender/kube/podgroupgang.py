"""Makes one gang of a pod group: decides which pods are its members, which role each has, and which pods must wait
until the members run.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

from extender.kube.ownedpods import OwnedPod, OwnedPods, close_gaps, keep_or_assign_slots
from policy.cluster.job import WORKER, Job, Role, Slot
from policy.cluster.resources import NOTHING


def assign_group_slots(owned: OwnedPods, least: int) -> None:
    """Decide which pods of a pod group are members of its gang, and assign slots to them.

    ``least``: the pod group's minimum number of pods. Pods that were bound as members are members. If they are fewer
    than the minimum, other pods become members until the minimum is reached: first pods that hold room on a node, then
    waiting pods, of these the present members first. All remaining pods are gangs of one pod, once the members run.
    After a restart the bound members are the same, but other waiting pods may be chosen, because the choice of waiting
    pods is not written down.
    """
    live = owned.live()
    sure = {uid for uid in live if _was_bound_as_member(owned.pods[uid])}
    others = sorted((uid for uid in live if uid not in sure), key=partial(_candidate_key, owned))
    chosen = sure.union(others[: max(0, least - len(sure))])
    for uid in others:
        if uid not in chosen:
            owned.slots.pop(uid, None)
    members = [uid for uid in live if uid in chosen]
    roles = {uid: owned.pods[uid].role_name for uid in members}
    keep_or_assign_slots(owned, members, roles, Counter(roles.values()))
    for role in sorted(set(roles.values())):
        uids = [uid for uid in members if roles[uid] == role]
        close_gaps(owned, uids, role, len(uids))


def _was_bound_as_member(member: OwnedPod) -> bool:
    """Tell whether the pod was bound as a member of the gang of its pod group, and not as a gang of one pod.

    Only a pod that was bound as a member has a slot written on it.
    """
    return bool(member.pod.node) and member.bound_slot is not None


def _candidate_key(owned: OwnedPods, uid: str) -> tuple[bool, bool]:
    """Return the sort key of a pod that may become a member of the pod group's gang: bound pods come first, then
    waiting pods.

    Among bound pods those that another scheduler has bound come first, because those that Kohort has bound were bound
    as gangs of one pod. Among waiting pods the present members come first.
    """
    pod = owned.pods[uid].pod
    return not pod.node, bool(pod.plan) if pod.node else uid not in owned.slots


def waiting_slots(owned: OwnedPods) -> dict[str, Slot]:
    """Return a slot, by pod uid, for each pod of a pod group that is not a member and must wait for the members.

    Such a pod must wait until all members are bound, because it would otherwise take room that the members may need.
    The indices of these slots come after those of the members.
    """
    if (owned.least or 0) < 2 or _has_started(members := owned.members()):
        return {}
    roles, slots = Counter(member.role_name for member in members), dict[str, Slot]()
    for uid in owned.live():
        if uid not in owned.slots and not owned.pods[uid].pod.node:
            role = owned.pods[uid].role_name
            slots[uid] = Slot(role, roles[role])
            roles[role] += 1
    return slots


def _has_started(members: list[OwnedPod]) -> bool:
    return bool(members) and all(member.pod.node or member.pod.ended for member in members)


def gang_of(owned: OwnedPods, group: Job, least: int) -> Job:
    """Return the gang of a pod group: a rigid job with the members' roles.

    ``least``: the pod group's minimum number of pods. Until the gang has started, pods of the minimum that do not exist
    yet are counted as replicas of a role. After the start they are not counted: the minimum matters at the start only,
    and it is not known whether another pod will be created.
    """
    members = owned.members()
    started = _has_started(members)
    missing = 0 if started else max(0, least - len(members))
    roles, invalid = _roles(members, missing)
    workers = next((role.replicas for role in roles if role.name == WORKER), 0)
    over = all(member.pod.ended for member in owned.pods.values())
    had = owned.gang
    return replace(
        group,
        roles=roles,
        min_workers=workers,
        max_workers=workers,
        invalid=group.invalid or next((member.invalid for member in members if member.invalid), invalid),
        finished=over and (bool(owned.pods) or (had is not None and had.finished)),
        replaced=all(member.replaced for member in members),
        # The gang's version never decreases, even when the newest pod is gone: the ledger ignores a job of a lower
        # version as outdated.
        version=max(
            [group.version, had.version if had else 0, *(member.pod.version for member in owned.pods.values())]
        ),
    )


def _roles(members: list[OwnedPod], missing: int) -> tuple[tuple[Role, ...], str]:
    """Return the roles of a pod group's gang: one role for all members of the same role name, with requests large
    enough for each of these members.

    The second value is the reason why members of one role name cannot share a role, empty if they can. ``missing``: how
    many pods of the pod group's minimum do not exist yet.
    """
    found: dict[str, Role] = {}
    for member in members:
        role = member.role or Role(WORKER, 1, NOTHING)
        known = found.get(role.name)
        if known is not None and known.constraints != role.constraints:
            why = (
                f"pod {member.pod.name}: its node selector, affinity or tolerations differ from those of the other pods"
            )
            return (known,), f"{why} of role {role.name}; allowed: equal ones, or another role by its label"
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
