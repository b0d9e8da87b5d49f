"""Why kube-scheduler itself does not place a member of a gang: its plugins refuse all nodes, or its attempt has failed.

kube-scheduler asks Kohort only about nodes that its own plugins let through. If they let none through, Kohort learns of
it only from the pod's condition PodScheduled.
"""

from __future__ import annotations

from collections.abc import Collection

from policy.cluster.index import Facts
from policy.cluster.model import Pod, Slot

OWN = "kohort: "  # Kohort's own texts begin with OWN, so that they are recognised in a pod's condition.
LONGEST = 300  # A message of kube-scheduler is cut to LONGEST characters.


def is_turned_away(pod: Pod) -> bool:
    """Tell whether kube-scheduler's plugins refuse every node, the planned one included, for a pod that waits."""
    return _is_pending(pod) and pod.refused and not pod.failed_attempt and bool(pod.refusal) and OWN not in pod.refusal


def _has_failed(pod: Pod) -> bool:
    """Tell whether kube-scheduler's last attempt to place the waiting pod ended with an error.

    An attempt that failed because Kohort refused to bind the pod does not count.
    """
    return _is_pending(pod) and pod.failed_attempt and OWN not in pod.refusal


def trouble_of(facts: Facts, job_uid: str, among: Collection[Slot] | None = None) -> str:
    """Return kube-scheduler's message about the first member that it does not place; empty if there is none.

    If ``among`` is not None, only the members in these slots are looked at.
    """
    for slot, uid in sorted(facts.members.get(job_uid, {}).items()):
        pod, asked = facts.pods[uid], among is None or slot in among
        if asked and (is_turned_away(pod) or _has_failed(pod)):
            return f"kube-scheduler says of {slot}{_with_volumes(pod)}: {pod.refusal[:LONGEST]}"
    return ""


def _is_pending(pod: Pod) -> bool:
    return not (pod.node or pod.ended or pod.terminating or pod.gated)


def _with_volumes(pod: Pod) -> str:
    """Return the names of the pod's volume claims as part of a sentence, if kube-scheduler's message is about volumes.

    kube-scheduler's own message does not name them. For any other message the result is empty.
    """
    if not pod.volumes or "olume" not in pod.refusal:
        return ""
    claims = ", ".join(pod.volumes)
    return (
        f", which asks for the volume {claims}" if len(pod.volumes) == 1 else f", which asks for the volumes {claims}"
    )
