"""Makes views of the journal's entries, each with a text that says in words what was decided or done."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import assert_never

from extender.present.names import named, rigid_first
from extender.present.views.base import JobName
from extender.present.views.decisions import DecisionView
from extender.state.journal import Direction, Entry, Named, Subject
from policy.answers.inputs import SHORT
from policy.cluster.actions import (
    Admit,
    Bind,
    Edited,
    Effect,
    Migrate,
    NodeFailed,
    NodeForgiven,
    Preempted,
    RefuseBind,
    Reject,
    Released,
    Remember,
    Resize,
    Shown,
    ShrinkStalled,
    Stalled,
    WriteRefused,
)
from policy.cluster.reasons import Reason
from policy.cluster.words import counted, in_time, listed

MEMBERS_NAMED = 5


def decisions_view(entries: Iterable[Entry], since: int, most: int) -> tuple[DecisionView, ...]:
    """Return views of the first ``most`` entries after the sequence number ``since``, oldest first."""
    return tuple(decision_view(entry) for entry in islice((one for one in entries if one.sequence > since), most))


def decision_view(entry: Entry) -> DecisionView:
    """Return one entry of the journal as a view."""
    job = entry.subject.job
    base = DecisionView(
        sequence=entry.sequence,
        at=entry.at,
        generation=entry.generation,
        cause=entry.cause,
        action=action_of(entry.effect),
        job=JobName(**named(job)) if job is not None else None,
        inputs=dict(entry.inputs),
        text="",
    )
    found = _fields_of(entry.effect, entry.subject, entry.way)
    short = f": {entry.inputs[SHORT]}" if SHORT in entry.inputs else ""
    return base.model_copy(update={**found, "text": f"{found['text']}{short}"})


def action_of(effect: Effect) -> str:
    """Return the name of an effect: the name of its class; for the class Shown, the name of the change that the API
    shows as done, such as "Bound".
    """
    return effect.what if isinstance(effect, Shown) else type(effect).__name__


def _fields_of(effect: Effect, subject: Subject, way: Direction) -> dict[str, object]:
    match effect:
        case Admit():
            return {"workers": effect.workers, "nodes": _by_member(effect), "text": _planned(effect, subject)}
        case Resize():
            return _resized(effect, subject.rival, way)
        case Migrate():
            text = f"planned: to move whole to {counted(len(set(effect.nodes.values())), 'node')}"
            return {"nodes": _by_member(effect), "text": text}
        case Reject():
            return {"reason": effect.reason.value, "text": effect.reason.fact}
        case Released():
            return {"reason": effect.reason.value, "text": f"plan given up: {effect.reason.fact}"}
        case Stalled():
            return {"workers": effect.workers, "reason": Reason.STALLED.value, "text": _stalled(effect)}
        case ShrinkStalled():
            return _not_gone(effect, subject.rival)
        case Preempted():
            nodes = {str(slot): effect.nodes[slot] for slot in sorted(effect.nodes, key=rigid_first)}
            return {"reason": Reason.PREEMPTED.value, "nodes": nodes, "text": _preempted(effect)}
        case Edited():
            return {"text": _edited(effect)}
        case NodeFailed():
            return {"text": _failed(effect)}
        case NodeForgiven():
            by = "an administrator has forgiven its failures" if effect.by_hand else "its failures are long enough ago"
            return {"text": f"node {effect.node} is no longer avoided: {by}"}
        case Bind():
            text = f"binding to {effect.node} sent"
            return {"pod": effect.name, "nodes": {str(effect.slot): effect.node}, "text": text}
        case Shown():
            return _shown(effect, subject.rival)
        case WriteRefused():
            return _write_refused(effect, subject)
        case RefuseBind():
            return {
                "pod": subject.pod or effect.uid,
                "reason": effect.reason.value,
                "text": effect.reason.fact,
            }
        case Remember():
            return {"text": f"the policy stored what it remembers under {effect.key}"}
        case _:
            assert_never(effect)


def _planned(admit: Admit, subject: Subject) -> str:
    """Return the text of an admission, with the pods that must go before the job can start, if there are any."""
    workers, hosts = counted(admit.workers, "worker"), counted(len(set(admit.nodes.values())), "node")
    if not admit.waits_for:
        return f"planned: to start with {workers} on {hosts}"
    pods, be = counted(len(admit.waits_for), "pod"), "is" if len(admit.waits_for) == 1 else "are"
    whose = f" of {' and '.join(subject.awaited)}" if subject.awaited else ""
    return f"planned: to start with {workers} on {hosts} once {pods}{whose} {be} gone"


def _shown(shown: Shown, rival: Named | None) -> dict[str, object]:
    """Return the fields of DecisionView for a decision that has been carried out, as the API shows.

    ``rival``: the job for which workers were taken, if any.
    """
    scaled = f"from {shown.before} to {counted(shown.workers, 'worker')}"
    members, ahead = f"{counted(shown.members, 'member')} on {counted(shown.hosts, 'node')}", _full_name(rival)
    text = {
        "Bound": f"bound: {members}",
        "Repaired": f"repaired: {members}",
        "Moved": f"moved: {members}",
        "Shrunk": f"scaled in {scaled}" + (f" for {ahead}" if ahead else ""),
        "Grown": f"scaled out {scaled}",
        "Paused": "paused: its pods are gone",
    }[shown.what]
    return {"workers": shown.workers, "on_behalf_of": ahead, "text": text}


def _write_refused(effect: WriteRefused, subject: Subject) -> dict[str, object]:
    return {"pod": subject.pod, "on_behalf_of": _full_name(subject.rival), "text": effect.refused.text}


def _edited(edit: Edited) -> str:
    """Return the text for a change that a user made to a job; it says whether Kohort keeps the change or undoes it."""
    ends = "the change stays" if edit.kept else "it is set back, since only the policy adds workers"
    return f"somebody has changed {edit.what} from {edit.before} to {edit.after}: {ends}"


def _stalled(growth: Stalled) -> str:
    ends = "Kohort takes them back" if growth.given_back else "Kohort still waits for them"
    return (
        f"{growth.missing} of the {counted(growth.workers, 'worker')} that the job was given have not arrived: {ends}"
    )


def _preempted(loss: Preempted) -> str:
    lost = listed([f"{slot} on {node}" for slot, node in sorted(loss.nodes.items())], MEMBERS_NAMED)
    whom = f" for {', '.join(loss.by)}" if loss.by else ""
    return f"another scheduler has preempted {counted(len(loss.nodes), 'member')}{whom}: {lost}"


def _failed(failure: NodeFailed) -> str:
    """Return the text for a member's failure that counts against its node."""
    text = f"a member has failed on node {failure.node} while the others lived on"
    if not failure.until:
        return f"{text}: one more such failure, of another job, and the node is avoided"
    others = f"as members of {counted(failure.jobs - 1, 'other job')} did"
    how = "nothing is placed there" if failure.barred else "it is used only where no other node has room,"
    return f"{text}, {others}: {how} until {in_time(failure.until)}"


def _not_gone(shrink: ShrinkStalled, rival: Named | None) -> dict[str, object]:
    ahead, have = _full_name(rival), "has" if shrink.left == 1 else "have"
    whose = f"of {ahead} " if ahead else ""
    text = f"{counted(shrink.left, 'worker')} taken away {have} not gone in time: the plan {whose}was given up"
    return {"workers": shrink.workers, "reason": Reason.SHRINK_STALLED.value, "on_behalf_of": ahead, "text": text}


def _full_name(job: Named | None) -> str:
    return f"{job.namespace}/{job.name}" if job is not None else ""


def _resized(resize: Resize, rival: Named | None, way: Direction) -> dict[str, object]:
    ahead = _full_name(rival)
    scaled = f"asked to scale {way} to {counted(resize.workers, 'worker')}" + (f" for {ahead}" if ahead else "")
    anew = f"planned: new nodes for {counted(len(resize.nodes), 'member')}"
    text = "asked to pause: its pods will be removed" if resize.pauses else scaled if way else anew
    named = {"workers": resize.workers, "direction": way, "nodes": _by_member(resize)}
    return {**named, "on_behalf_of": ahead, "text": text}


def _by_member(effect: Admit | Resize | Migrate) -> dict[str, str]:
    return {str(slot): effect.nodes[slot] for slot in sorted(effect.nodes, key=rigid_first)}
