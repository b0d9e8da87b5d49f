"""The migration of a whole running gang to other nodes.

The new room is charged at once. A member is old while it is bound to another node than its planned one. The loss of old
members is part of the migration, so nothing is repaired or released for it before the deadline. If the job's kind can
be suspended, Kohort suspends the job meanwhile, because its operator would count pods that others delete as failed.
"""

from __future__ import annotations

from policy.cluster.actions import Effect, Migrate
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import Gang
from policy.cluster.job import Job, Slot
from policy.cluster.lifecycle import Awaits, Move
from policy.cluster.pod import Pod
from policy.transitions.deadlines.growth import await_rest
from policy.transitions.deadlines.patience import Expired, until
from policy.transitions.gangs import any_goes, bound_slots, complete, least_workers, move, plan_name, stays


def migrate(draft: Draft, action: Migrate, now: float) -> None:
    """Begin a migration: plan the gang on its new nodes.

    The plan gets a new name, so that the controller wakes pods which kube-scheduler has refused before. If
    ``checkpoint_seconds`` is above 0, the training is asked to save first, and no pod goes before the training has
    saved or that time is over.
    """
    saves = draft.base.rules.checkpoint_seconds > 0
    deadline = until(draft, Awaits.CHECKPOINT if saves else Awaits.MIGRATION, now)
    gang = draft.gang(action.job_uid)
    name, nodes = plan_name(draft, now), dict(action.nodes)
    move(draft, gang, Move.MIGRATE, nodes=nodes, plan=name, deadline=deadline, awaited=len(nodes))


def leave(draft: Draft, gang: Gang, now: float) -> None:
    """Begin to await the gang's arrival on its new nodes if it was awaiting that its training saves; its old pods may
    go from now on.
    """
    if gang.saving:
        draft.put_gang(replace(gang, deadline=until(draft, Awaits.MIGRATION, now)))


def follow_migration(draft: Draft, job: Job, gang: Gang, now: float) -> Gang:
    """Bring a migrating gang into line with its pods, and return it.

    The migration is complete when the minimum is bound on its new nodes and no member is bound to an old one. It is
    given up when a new node is gone, cordoned or not ready.
    """
    there = _places(draft, gang)
    arrived = {slot for slot, node in there.items() if gang.nodes[slot] == node}
    if len(arrived) == len(there) and complete(job, bound_slots(draft, job.uid), least_workers(job, gang), gang.ps):
        move(draft, gang, Move.COMPLETE, deadline=None, awaited=0)
        await_rest(draft, job, now)
        return draft.gang(job.uid)
    nodes = draft.now.nodes
    targets = {node for slot, node in gang.nodes.items() if slot not in arrived}
    usable = {name for name in targets if name in nodes and nodes[name].usable}
    if usable != targets:
        return stay(draft, job, gang, now)
    return _awaiting(draft, gang, len(gang.nodes) - len(arrived), now)


def _awaiting(draft: Draft, gang: Gang, left: int, now: float) -> Gang:
    """Note how many members are still to arrive on the new nodes (``left``), and return the gang.

    With each member that arrives the deadline of the migration starts again, because a PodDisruptionBudget may let the
    old pods go only one by one.
    """
    if left >= gang.awaited:
        return gang
    deadline = gang.deadline if gang.saving else until(draft, Awaits.MIGRATION, now)
    gang = replace(gang, awaited=left, deadline=deadline)
    draft.put_gang(gang)
    return gang


def end_checkpoint(draft: Draft, expired: Expired) -> list[Effect]:
    """Let the old pods of a migrating gang go, because the time for its training to save is over."""
    leave(draft, expired.gang, expired.now)
    return []


def end_migration(draft: Draft, expired: Expired) -> list[Effect]:
    """Give up a migration that was not done in time.

    While an old pod is still terminating on a ready node, the deadline is only extended, because the training may need
    long to stop.
    """
    if any_goes(draft, expired.gang.job_uid):
        draft.put_gang(replace(expired.gang, deadline=until(draft, Awaits.MIGRATION, expired.now)))
    else:
        stay(draft, expired.job, expired.gang, expired.now)
    return []


def stay(draft: Draft, job: Job, gang: Gang, now: float) -> Gang:
    """Give up the migration, and return the gang.

    Bound members stay on their nodes, old or new. If they are fewer than the minimum, the gang is repaired: the lost
    members are planned on their new nodes.
    """
    whole = complete(job, bound_slots(draft, job.uid), least_workers(job, gang), gang.ps)
    deadline = None if whole else until(draft, Awaits.REPAIR, now)
    nodes = {**gang.nodes, **_places(draft, gang)}
    move(draft, gang, Move.COMPLETE if whole else Move.LOSE, nodes=nodes, deadline=deadline, awaited=0)
    await_rest(draft, job, now)
    return draft.gang(job.uid)


def _places(draft: Draft, gang: Gang) -> dict[Slot, str]:
    """Return the present node of each planned member that is bound and not terminating."""
    nodes, members = draft.now.nodes, draft.now.members.get(gang.job_uid, {})
    found: dict[Slot, Pod | None] = {
        slot: draft.now.pods.get(uid) for slot, uid in members.items() if slot in gang.nodes
    }
    return {slot: pod.node for slot, pod in found.items() if pod is not None and stays(pod, nodes)}
