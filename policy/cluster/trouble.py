"""What kube-scheduler itself says against members of a gang: its plugins' refusals, and attempts that failed.

It asks Kohort only about nodes that its own plugins let through. Where they let none through, the pod's condition
PodScheduled is all that is heard.
"""

from __future__ import annotations

from collections.abc import Collection

from policy.cluster.index import Facts
from policy.cluster.model import Pod, Slot

OWN = "kohort: "  # begins every reason of ours; kube-scheduler writes it into the condition like one of its own
LONGEST = 300  # characters of a message that are told


def is_turned_away(pod: Pod) -> bool:
    """Tell whether kube-scheduler's plugins let no node through, the planned one included."""
    return _is_pending(pod) and pod.refused and not pod.failed_attempt and bool(pod.refusal) and OWN not in pod.refusal


def _has_failed(pod: Pod) -> bool:
    """Tell whether an attempt failed by kube-scheduler's own doing.

    A binding that Kohort could not make does not count.
    """
    return _is_pending(pod) and pod.failed_attempt and OWN not in pod.refusal


def trouble_of(facts: Facts, job_uid: str, among: Collection[Slot] | None = None) -> str:
    """Return the trouble of the first member (``among`` these) that has any, in words; empty where none has."""
    for slot, uid in sorted(facts.members.get(job_uid, {}).items()):
        pod, asked = facts.pods[uid], among is None or slot in among
        if asked and (is_turned_away(pod) or _has_failed(pod)):
            return f"kube-scheduler says of {slot}{_with_volumes(pod)}: {pod.refusal[:LONGEST]}"
    return ""


def _is_pending(pod: Pod) -> bool:
    return not (pod.node or pod.ended or pod.terminating or pod.gated)


def _with_volumes(pod: Pod) -> str:
    """Name the volumes where the message is about volumes: it does not name them itself."""
    if not pod.volumes or "olume" not in pod.refusal:
        return ""
    claims = ", ".join(pod.volumes)
    return (
        f", which asks for the volume {claims}" if len(pod.volumes) == 1 else f", which asks for the volumes {claims}"
    )
