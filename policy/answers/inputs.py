"""The figures on which a decision was based.

The figures are recorded with the decision, because the snapshot on which the decision was made is not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from policy.answers.queue import weights
from policy.cluster.actions import Effect, Migrate, Reject, Resize
from policy.cluster.snapshot import Snapshot
from policy.cluster.words import in_words
from policy.placement.gang import cross_node_pairs
from policy.placement.quotaroom import left_in_words
from policy.systems.base import Policy

MOST = 64  # The figures of at most MOST effects of a step are recorded, because a step may resize hundreds of jobs.
# If a job is shrunk for another one that is short of pods, the figure named SHORT says which quotas have no room for
# the other job's pods.
SHORT = "its pods"


def inputs_of(
    before: Snapshot, after: Snapshot, effects: Iterable[Effect], policy: Policy, now: float
) -> dict[int, Mapping[str, str]]:
    """Return the figures (name to text) of each resize, migration and rejection, by its index in ``effects``.

    ``before``: the snapshot before the step, from which gangs and room are read. ``after``: the snapshot after the
    step, from which jobs are read, because it also has the jobs that arrived in the step.
    """
    told: dict[int, Mapping[str, str]] = {}
    for at, effect in enumerate(effects):
        if len(told) >= MOST:
            break
        match effect:
            case Resize() if effect.job_uid in after.jobs:
                told[at] = _resize(before, after, effect, policy)
            case Migrate() if effect.job_uid in after.jobs:
                told[at] = _migrate(before, effect, now)
            case Reject() if effect.job_uid in after.jobs:
                told[at] = {"figures": effect.detail, **_weight(after, policy, "weight", effect.job_uid)}
            case _:
                pass
    return told


def _resize(before: Snapshot, after: Snapshot, resize: Resize, policy: Policy) -> Mapping[str, str]:
    job, gang = after.jobs[resize.job_uid], before.gang(resize.job_uid)
    found = {"workers": f"{gang.workers} of {job.min_workers}-{job.max_workers}"}
    found |= _weight(after, policy, "weight", job.uid)
    rival = after.jobs.get(resize.on_behalf_of)
    if rival is not None:
        found |= {"for": rival.key, "it needs": in_words(rival.requests(rival.min_workers))}
        found |= _weight(after, policy, "its weight", rival.uid)
        found |= {SHORT: left_in_words(after, rival)} if rival.uid in after.short else {}
    elif resize.workers > gang.workers:
        hosts = dict.fromkeys(resize.nodes.values())
        found |= {f"free on {node}": in_words(before.free(node)) for node in list(hosts)[:3]}
    return found


def _migrate(before: Snapshot, move: Migrate, now: float) -> Mapping[str, str]:
    gang = before.gang(move.job_uid)
    found = {
        "from": ", ".join(sorted(set(gang.nodes.values()))),
        "to": ", ".join(sorted(set(move.nodes.values()))),
        "crossing pairs": f"{cross_node_pairs(gang.nodes)} -> {cross_node_pairs(move.nodes)}",
    }
    reports = [report for report in before.reports.get(move.job_uid, ()) if report.metric is not None]
    if reports:
        found["metric"] = f"{reports[-1].metric:.4g}, {now - reports[-1].at:.0f} s ago"
    return found


def _weight(snapshot: Snapshot, policy: Policy, name: str, uid: str) -> dict[str, str]:
    """Return a mapping from ``name`` to the job's published weight; an empty mapping if the policy has no weights."""
    weight = weights(snapshot, policy)(snapshot.jobs[uid])
    return {} if weight is None else {name: f"{weight:.4f}"}
