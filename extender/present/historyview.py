"""Makes the view of a job's history: what was decided about it, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from extender.present.decisionviews import decisions_view
from extender.present.views.decisions import DecisionView, StepView
from extender.state.journal import Entry
from policy.cluster.actions import Admit, Bind, RefuseBind, Released, WriteRefused
from policy.cluster.job import Job
from policy.cluster.reasons import Reason
from policy.cluster.words import counted


def history_view(entries: Iterable[Entry], job: Job) -> tuple[StepView, ...]:
    """Return the steps in which something was decided about the job, oldest first.

    All bindings of one step are told in one sentence.
    """
    kept = list(entries)
    mine = {entry.sequence for entry in kept if _concerns(entry, job.uid)}
    told = _with_resumes(one for one in decisions_view(kept, 0, len(kept)) if one.sequence in mine)
    return tuple(_step(list(found)) for _, found in groupby(told, key=lambda one: one.generation))


def _with_resumes(told: Iterable[DecisionView]) -> Iterator[DecisionView]:
    """Yield the decisions, with "resumed" before the text of the first admission after a suspension.

    The journal has no entry for a resumption, because nothing is decided when a user resumes a job.
    """
    stopped = False
    for one in told:
        if one.action == Released.__name__:
            stopped = one.reason == Reason.SUSPENDED.value
        resumed = stopped and one.action == Admit.__name__
        stopped = stopped and not resumed
        yield one.model_copy(update={"text": f"resumed; {one.text}"}) if resumed else one


def _concerns(entry: Entry, uid: str) -> bool:
    subject = entry.subject
    return any(job is not None and job.uid == uid for job in (subject.job, subject.rival))


def _step(found: list[DecisionView]) -> StepView:
    first = found[0]
    binds = [one for one in found if one.action == Bind.__name__]
    refusals = [one for one in found if one.action == RefuseBind.__name__]
    said = [_text_of(one) for one in found if one not in binds and one not in refusals]
    if binds:
        hosts = {node for one in binds for node in one.nodes.values()}
        said.append(f"{counted(len(binds), 'binding')} to {', '.join(sorted(hosts))} sent")
    if refusals:
        said.append(
            f"{counted(len(refusals), 'bind call')} refused: {', '.join(sorted({one.reason for one in refusals}))}"
        )
    inputs = {name: value for one in found for name, value in one.inputs.items()}
    return StepView(
        step=first.generation, at=first.at, because=first.cause, told=tuple(dict.fromkeys(said)), inputs=inputs
    )


def _text_of(one: DecisionView) -> str:
    """Return the decision's text, preceded by the name of its job if the decision changes that job for the benefit of
    another job.
    """
    # The text of a refused write already names the job, so the name is not put in front of it.
    named = one.job is not None and one.on_behalf_of and one.action != WriteRefused.__name__
    name = f"{one.job.key} " if one.job is not None and named else ""
    return f"{name}{one.text}"
