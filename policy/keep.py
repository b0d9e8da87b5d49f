"""A policy's memory of each job is kept in an annotation of the job object, and read when this replica begins to lead.

A job gets no room before the decision about it is written on its object. So after a crash no job runs under a schedule
that the next process does not know. While a replica leads, the memory in its snapshot counts: the annotations are
updated from the snapshot, and not read again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from policy.cluster.actions import Action, Admit, Decision, Remember, Resize
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import State
from policy.cluster.job import Job
from policy.cluster.reasons import Reason, Verdict
from policy.systems.base import Parts, Policy

FORMAT: Final = 1
# MOST_MEMORY is in characters; the API server allows 262,144 for all annotations of an object together.
MOST_MEMORY: Final = 131_072


def recall(draft: Draft, policy: Policy) -> None:
    """Read the policy's memory from the job objects into the draft, when this replica begins to decide."""
    if policy.keeps:
        found = {uid: parts for uid, job in draft.now.jobs.items() if (parts := read_memory(job))}
        draft.edit("memory").update(policy.recalled(draft.view(), found))
        if draft.base.rules.stores:
            _write(draft, policy, draft.now.memory)


def keep(draft: Draft, policy: Policy, decision: Decision) -> Decision:
    """Return the decision without admissions that must wait until the policy's memory of the job is on its object.

    Growths of such a job, and shrinks of other jobs for it, are removed, too. The texts that the controller writes on
    the job objects (``Snapshot.texts``) are updated from the decision.
    """
    if not draft.base.rules.stores or not policy.keeps:
        return decision
    changed = {action.key: action.value for action in decision.actions if isinstance(action, Remember)}
    if changed:
        merged = {**draft.now.memory, **changed}
        _write(draft, policy, {key: value for key, value in merged.items() if value is not None})
    early = {action.job_uid for action in decision.actions if isinstance(action, Admit) and _early(draft, action)}
    if not early:
        return decision
    actions = tuple(action for action in decision.actions if early.isdisjoint(_serves(action)))
    storing = dict.fromkeys(early, Verdict(Reason.STORING))
    return replace(decision, actions=actions, verdicts={**decision.verdicts, **storing})


def _serves(action: Action) -> tuple[str, ...]:
    """Return the uids of the jobs to which this action gives room, and for which it frees room."""
    match action:
        case Admit(job_uid):
            return (job_uid,)
        case Resize(job_uid, on_behalf_of=rival):
            return (job_uid, rival)
        case _:
            return ()


def _early(draft: Draft, admit: Admit) -> bool:
    """Tell whether the admission has to wait, because the policy's memory of the job is not on the job object yet.

    A paused job was admitted before, so it does not have to wait.
    """
    job = draft.now.jobs[admit.job_uid]
    text = draft.now.texts.get(job.uid, "")
    return draft.gang(job.uid).state is State.WAITING and bool(text) and text != job.memory


def _write(draft: Draft, policy: Policy, memory: Mapping[str, object]) -> None:
    """Update ``Snapshot.texts``, from which the controller writes the annotations, from the policy's memory.

    A text that is too long for an annotation is left out.
    """
    jobs = draft.now.jobs
    kept = {uid: parts for uid, parts in policy.parts(memory).items() if uid in jobs and jobs[uid].holds_notes}
    found = ((uid, write_memory(uid, parts)) for uid, parts in kept.items())
    texts = {uid: text for uid, text in found if len(text) <= MOST_MEMORY}
    if texts != draft.now.texts:
        draft.set("texts", texts)


def write_memory(uid: str, parts: Parts) -> str:
    """Return the text of the annotation that keeps the policy's memory of a job on the job object.

    ``parts``: the memory, a mapping from the system's name to values of JSON's types. The text has the job's uid,
    because users copy objects with their annotations.
    """
    return json.dumps({"v": FORMAT, "job": uid, **parts}, separators=(",", ":"), sort_keys=True)


def read_memory(job: Job) -> Parts:
    """Return the policy's memory from the job object; empty if the text is another job's, malformed or too long."""
    if not job.memory or len(job.memory) > MOST_MEMORY:
        return {}
    try:
        found = json.loads(job.memory)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict) or (found.pop("v", None), found.pop("job", None)) != (FORMAT, job.uid):
        return {}
    return found
