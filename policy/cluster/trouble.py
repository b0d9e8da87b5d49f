"""Why kube-scheduler itself does not place a member of a gang: its plugins refuse all nodes, its attempt has failed, or
a scheduling gate that is not Kohort's keeps the pod from it.

kube-scheduler asks Kohort only about nodes that its own plugins let through. If they let none through, Kohort learns of
it only from the pod's condition PodScheduled.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from policy.cluster.index import Facts
from policy.cluster.job import Slot
from policy.cluster.pod import Pod
from policy.cluster.words import listed

OWN = "kohort: "  # Kohort's own texts begin with OWN, so that they are recognised in a pod's condition.
MOST_NAMED = 3  # A text names at most MOST_NAMED members.
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
    """Return kube-scheduler's message about the first member that it does not place, or the scheduling gates that keep
    members from it; empty if there is none.

    If ``among`` is not None, only the members in these slots are looked at.
    """
    asked = [
        (slot, facts.pods[uid])
        for slot, uid in sorted(facts.members.get(job_uid, {}).items())
        if among is None or slot in among
    ]
    if told := _gates_in_words([(slot, pod) for slot, pod in asked if is_kept_by_gates(pod)]):
        return told
    for slot, pod in asked:
        if is_turned_away(pod) or _has_failed(pod):
            return f"kube-scheduler says of {slot}{_with_volumes(pod)}: {pod.refusal[:LONGEST]}"
    return ""


def is_kept_by_gates(pod: Pod) -> bool:
    """Tell whether scheduling gates that are not Kohort's keep the waiting pod from kube-scheduler."""
    return bool(pod.gates) and not (pod.node or pod.ended or pod.terminating)


def _gates_in_words(kept: Sequence[tuple[Slot, Pod]]) -> str:
    """Return which members are kept by which gates; empty if ``kept`` is."""
    if not kept:
        return ""
    names = sorted({gate for _, pod in kept for gate in pod.gates})
    gates = f"the scheduling gate {names[0]}" if len(names) == 1 else f"the scheduling gates {', '.join(names)}"
    verb = "keeps" if len(names) == 1 else "keep"
    return f"{gates} {verb} {listed([str(slot) for slot, _ in kept], MOST_NAMED)} from kube-scheduler"


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
