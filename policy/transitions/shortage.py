"""Applies events of ResourceQuotas, and notes since when each job has been short of pods because of the quotas."""

from __future__ import annotations

from policy.cluster.draft import Draft
from policy.cluster.quota import Quota
from policy.placement.quotaroom import short_of_pods


def see_quota(draft: Draft, quota: Quota) -> None:
    """Add or replace a ResourceQuota, unless a newer version of it is known."""
    old = draft.now.quotas.get(quota.key)
    if old is None or old.uid != quota.uid or old.version <= quota.version:
        draft.edit("quotas")[quota.key] = quota


def lose_quota(draft: Draft, key: str) -> None:
    """Remove a deleted ResourceQuota."""
    draft.edit("quotas").pop(key, None)


def note_short(draft: Draft, now: float) -> None:
    """Note for each job since when it has been short of pods because a quota does not admit them.

    The times are in seconds since the epoch; jobs that are no longer short of pods are removed.
    """
    before = draft.now.short
    found = short_of_pods(draft.view(), now) if draft.now.quotas else ()
    short = {uid: before.get(uid, now) for uid in found}
    if short != before:
        draft.set("short", short)
