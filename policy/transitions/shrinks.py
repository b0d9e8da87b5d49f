"""Workers that were taken for a plan and have not gone when it ends: told at the job that they were taken from.

Who deletes them is the job's own controller; one that is down, or a pod that does not end (a finalizer, a kubelet that
is gone), holds the room for ever. The plan's own job is told that its room was not freed; without this the other one
would only be told that it shrank, and then that it grew.
"""

from __future__ import annotations

from collections import Counter

from policy.cluster.actions import ShrinkStalled
from policy.cluster.draft import Draft
from policy.cluster.gang import Gang


def stalled_shrinks(draft: Draft, gang: Gang) -> list[ShrinkStalled]:
    """Of each job, by uid, of which pods that this plan waits for were to go and are still there.

    Pods that the job may keep (it moves, or has ended) are none that a shrink has taken.
    """
    pods = draft.read("pods")
    late = Counter[str]()
    for uid in gang.waits_for:
        pod = pods.get(uid)
        if pod is None or not pod.holds_room or pod.slot is None:
            continue
        victim = draft.gang(pod.job_uid)
        if victim.admitted and not victim.gives(pod.slot):
            late[pod.job_uid] += 1
    return [
        ShrinkStalled(victim, draft.gang(victim).workers, left, on_behalf_of=gang.job_uid)
        for victim, left in sorted(late.items())
    ]
