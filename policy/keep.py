"""What a policy remembers of a job stands on the job's object, and is read again when this process begins to decide.

The object comes first: a job is given no room before the decision about it is written there, so that no crash can leave
a job that runs under a schedule which no process knows. While a replica decides, its own memory counts and the objects'
texts follow it; the texts of another replica are never taken over then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from policy.cluster.actions import Action, Admit, Decision, Remember, Resize
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import State
from policy.cluster.model import Job
from policy.cluster.reasons import Reason, Verdict
from policy.systems.base import Parts, Policy
from policy.transitions.gangs import rules_of

FORMAT: Final = 1
MOST_MEMORY: Final = 131_072  # characters; all annotations of an object may have 262,144


def recall(draft: Draft, policy: Policy) -> None:
    """Read what the objects hold: at the beginning, and where another replica has led meanwhile."""
    if policy.keeps:
        found = {uid: parts for uid, job in draft.now.jobs.items() if (parts := read_memory(job))}
        draft.edit("memory").update(policy.recalled(draft.view(), found))
        if rules_of(draft).stores:
            _write(draft, policy, draft.now.memory)


def keep(draft: Draft, policy: Policy, decision: Decision) -> Decision:
    """Return the decision less admissions that must wait until their job's object holds them, and what depends on them.

    Such a job is not grown in the same step either, and no job is shrunk for it before.
    """
    if not rules_of(draft).stores or not policy.keeps:
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
    """Return the jobs that are given room, or promised it, by this action."""
    match action:
        case Admit(job_uid):
            return (job_uid,)
        case Resize(job_uid, on_behalf_of=rival):
            return (job_uid, rival)
        case _:
            return ()


def _early(draft: Draft, admit: Admit) -> bool:
    """Tell whether the admission comes before the job's object holds it.

    Only the first admission waits: a job that has paused was admitted before.
    """
    job = draft.now.jobs[admit.job_uid]
    text = draft.now.texts.get(job.uid, "")
    return draft.gang(job.uid).state is State.WAITING and bool(text) and text != job.memory


def _write(draft: Draft, policy: Policy, memory: Mapping[str, object]) -> None:
    """Write the texts of all jobs. A text that is too long for an annotation is left out."""
    jobs = draft.now.jobs
    kept = {uid: parts for uid, parts in policy.parts(memory).items() if uid in jobs and jobs[uid].holds_notes}
    found = ((uid, write_memory(uid, parts)) for uid, parts in kept.items())
    texts = {uid: text for uid, text in found if len(text) <= MOST_MEMORY}
    if texts != draft.now.texts:
        draft.set("texts", texts)


def write_memory(uid: str, parts: Parts) -> str:
    """Return the annotation's value. It names its job, because objects are copied with their annotations."""
    return json.dumps({"v": FORMAT, "job": uid, **parts}, separators=(",", ":"), sort_keys=True)


def read_memory(job: Job) -> Parts:
    """Return what the job's object holds; nothing of a text that is another job's, of another format, or spoilt."""
    if not job.memory or len(job.memory) > MOST_MEMORY:
        return {}
    try:
        found = json.loads(job.memory)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict) or (found.pop("v", None), found.pop("job", None)) != (FORMAT, job.uid):
        return {}
    return found
