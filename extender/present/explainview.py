"""Makes the view of one job for GET /v1/explain: why it waits or why it runs where it does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from extender.kube.jobkinds import KINDS
from extender.present.historyview import history_view
from extender.present.jobviews import job_detail
from extender.present.views.explain import ExplainView
from extender.state.journal import Entry
from policy.answers.explain import explain, with_trials
from policy.answers.explanation import Explanation, Grounds
from policy.answers.standing import RIGID
from policy.cluster.job import Job
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy


def explanation(snapshot: Snapshot, job: Job, policy: Policy, now: float, *, trials: bool = False) -> Explanation:
    """Return the explanation that ``policy`` gives, with the advice that depends on the kind of the job's object.

    trials: whether to compute the fields that need dozens of trial decisions as well; this takes long and must not be
    done on the event loop.
    """
    told = explain(snapshot, job.uid, policy, now) or Explanation()
    if told.waits is not None and told.waits.reason == Reason.SUSPENDED.value:
        told = replace(told, mend=_resume(job))
    if trials:
        told = with_trials(told, snapshot, job, policy, now)
    return replace(told, running=_with_kind(told.running, job)) if told.running is not None else told


def explain_view(
    snapshot: Snapshot,
    job: Job,
    policy: Policy,
    now: float,
    entries: Iterable[Entry] = (),
    told: Explanation | None = None,
) -> ExplainView:
    """Return the job with its explanation and its history.

    entries: the journal, from which the history is made. told: the job's explanation; None: this function makes it.
    """
    told = told or explanation(snapshot, job, policy, now)
    detail = job_detail(snapshot, job, policy, now)
    return ExplainView(**{**dict(detail), **vars(told)}, history=history_view(entries, job))


def _with_kind(found: Grounds, job: Job) -> Grounds:
    return replace(found, growth=_rigid(job)) if found.growth == RIGID else found


def _rigid(job: Job) -> str:
    """Return the text that says why a rigid gang does not grow, and which field of its object would let it grow."""
    kind = KINDS.get(job.kind)
    if kind is None or not kind.resizes:
        return f"its kind: Kohort does not resize a {job.kind}"
    if kind.bounds_at:
        return f"its bounds: it is a rigid gang; set spec.{kind.bounds_at} with maxReplicas to let it grow"
    return RIGID


def _resume(job: Job) -> str:
    """Return how to resume a suspended job: by the field of its kind, or by scaling it up if the kind has none."""
    kind = KINDS.get(job.kind)
    if kind is None:
        return ""
    if not kind.suspends:
        return f"scale it up again: kubectl -n {job.namespace} scale {kind.kind.lower()} {job.name} --replicas=N"
    return f"set {kind.suspended_by} to false, as `kohort resume {job.key}` does"
