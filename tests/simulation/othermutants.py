"""Seeded defects (faults put into the code on purpose) about what others do in the cluster: preemption, volumes,
admission, quotas.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from extender.control import refusalreports
from extender.kube import translate
from policy import step
from policy.cluster import draft as drafts
from policy.cluster.events import BindRefused
from policy.cluster.pod import Pod
from policy.cluster.refusedwrite import SET_REPLICAS
from policy.transitions import barrier as bars
from policy.transitions import facts, refusedwrites
from policy.transitions.recovery import taken

Patch = tuple[object, str, object]


def nominated_pods_not_counted() -> list[Patch]:
    """Kubernetes #72124: room that another scheduler reserves for a nominated pod counts as free."""
    return [(Pod, "claims", property(lambda self: False))]


def slot_given_again_to_the_preempted() -> list[Patch]:
    """Kubernetes #130429: the successor of a preempted member is planned into the room of the preemptor."""
    return [(facts, "lose_room", lambda draft, pod: None), (taken, "_drop_open_slots", lambda draft, name, gang: []),
            (bars, "is_taken", lambda draft, gang, pod, name: False)]  # fmt: skip


def no_second_look() -> list[Patch]:
    """Changes that the watch shows after the plan was made are not checked when a member is bound."""
    return [(bars, "is_taken", lambda draft, gang, pod, name: False),
            (bars, "_is_shaken", lambda draft, gang: False)]  # fmt: skip


def conditions_not_heard() -> list[Patch]:
    """Failures of kube-scheduler's plugins, for example a missing volume, do not reach the member's plan."""
    return [(bars, "hear_condition", lambda draft, uid, now: [])]


def refused_resize_taken_for_done() -> list[Patch]:
    """A resize that admission refuses counts as made."""

    def take(draft: drafts.Draft, refused: Any) -> Any:
        effects = _TAKE_REFUSED(draft, refused)
        for uid, writes in draft.now.refused_writes.items():
            job = draft.now.jobs.get(uid)
            if job is not None and job.worker is not None and any(one.write == SET_REPLICAS for one in writes):
                workers = draft.gang(uid).workers
                roles = (replace(role, replicas=workers) if role is job.worker else role for role in job.roles)
                draft.put_job(replace(job, roles=tuple(roles)))
        return effects

    return [(facts, "take_refused", take)]


_TAKE_REFUSED = refusedwrites.take_refused


def refused_binding_keeps_its_room() -> list[Patch]:
    """The room of a binding that admission refuses stays reserved."""

    def apply(draft: drafts.Draft, event: Any, now: float) -> Any:
        if isinstance(event, BindRefused) and "denied" in event.message:
            return refusedwrites.refused_binding(draft, event.uid, event.message)
        return _APPLY(draft, event, now)

    return [(step, "apply_bind_event", apply)]


_APPLY = bars.apply_bind_event


def refusals_not_told() -> list[Patch]:
    """A write that admission refuses is reported nowhere."""
    return [(refusalreports.RefusalReports, "note", lambda self, call, outcome: None),
            (bars, "refused_binding", lambda draft, uid, message: [])]  # fmt: skip


def quotas_not_read() -> list[Patch]:
    """The service does not know the namespaces' ResourceQuotas."""
    return [(translate, "quota_events", lambda item, gone: [])]


def surplus_waits_for_a_refused_shrink() -> list[Patch]:
    """Once in Kohort: the plan of a Deployment keeps its room until its surplus pods are gone, which admission refuses
    to remove.
    """
    return [(refusedwrites, "_stop_waiting", lambda draft, gang, resize, now: [])]


OTHER_MUTANTS: Final[tuple[Callable[[], list[Patch]], ...]] = (
    nominated_pods_not_counted, slot_given_again_to_the_preempted, no_second_look, conditions_not_heard,
    refused_resize_taken_for_done, refused_binding_keeps_its_room, refusals_not_told, quotas_not_read,
    surplus_waits_for_a_refused_shrink,
)  # fmt: skip
