"""Whether a gang may be bound at its first bind call (setting ``barrier.commit: first``).

At that time kube-scheduler's plugins have checked one member only. The gang may be bound if the other members have
nothing that the plugins would check, except what Kohort itself checks. The first obstacle is returned in words, so that
``kohort explain`` can show it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.job import Slot, queued
from policy.cluster.pod import Pod
from policy.cluster.reasons import Reason
from policy.cluster.refusal import surplus_first
from policy.cluster.resources import NOTHING
from policy.cluster.snapshot import Snapshot, is_over
from policy.placement.fit import accepts
from policy.placement.plugins import REPELS, plugins_at, unknown

EVERY_NAMESPACE = "*"


def looked_at(snapshot: Snapshot, job_uid: str) -> str:
    """Return in words the first thing in the job's pods that kube-scheduler's plugins would check and Kohort does not.

    The result is empty if there is nothing, so that the complete gang may be bound at its first bind call. It does not
    depend on the setting ``barrier.commit``.
    """
    return next(_lasting(snapshot, job_uid), "")


def in_the_way(snapshot: Snapshot, gang: Gang) -> str:
    """Return in words why the gang's members cannot be bound together now by one bind call; empty if they can."""
    return next(chain(_lasting(snapshot, gang.job_uid), _passing(snapshot, gang)), "")


def sends_all(snapshot: Snapshot, uid: str) -> bool:
    """Tell whether a bind call of this pod sends the bindings of its whole gang at once."""
    pod = snapshot.pods.get(uid)
    if not snapshot.rules.commit_first or pod is None:
        return False
    gang = snapshot.gang(pod.job_uid)
    return gang.state is State.PLANNED and gang.whole and not in_the_way(snapshot, gang)


def _lasting(snapshot: Snapshot, job_uid: str) -> Iterator[str]:
    """Yield in words the lasting obstacles to binding the gang at its first bind call.

    They are plugins in kube-scheduler's profile that Kohort does not know, and what Kohort does not check in the pods.
    """
    for plugin in unknown(snapshot.rules.plugins):
        yield f"kube-scheduler has the plugin {plugin}, which Kohort does not know"
    for pod in snapshot.pods_of(job_uid):
        if pod.node or pod.ended or pod.terminating:
            continue
        for field in pod.unchecked:
            checks = f"kube-scheduler checks ({' and '.join(plugins_at(field))})"
            yield f"{pod.slot} has {field}, which {checks} and Kohort does not"
        if pod.places is None:
            yield f"{pod.slot} has a node selector, an affinity or tolerations that cannot be read"
        if repelled := _repelled(snapshot, pod):
            yield repelled


def _repelled(snapshot: Snapshot, pod: Pod) -> str:
    """Return in words which other pod has a required anti-affinity that may concern ``pod``; empty if none has.

    Only the namespaces of the anti-affinity are compared. So the pod that is named may turn out to be harmless, but a
    pod that matters is never overlooked.
    """
    for uid, namespaces in sorted(snapshot.repelling.items()):
        if uid != pod.uid and (pod.namespace in namespaces or EVERY_NAMESPACE in namespaces):
            other = snapshot.pods[uid]
            # The text names no pod of another namespace, because its reader may lack the right to see that namespace.
            which = f"pod {other.name}" if other.namespace == pod.namespace else "a pod of another namespace"
            return f"{which} has a required anti-affinity, which kube-scheduler checks ({REPELS}) and Kohort does not"
    return ""


def _passing(snapshot: Snapshot, gang: Gang) -> Iterator[str]:
    """Yield in words the passing obstacles to binding the gang with one bind call.

    They are, for example, members without a pod, and planned nodes that do not take their members now.
    """
    job = snapshot.jobs.get(gang.job_uid)
    if job is None or not queued(job) or gang.state not in ADMITTED or gang.waits_for:
        yield "the gang has no plan yet, or the room of its plan is not free yet"
        return
    if gang.in_flight:
        yield "the API server's answer to an earlier binding of the gang is not known yet"
    if surplus_first(snapshot, job, gang):
        yield Reason.SURPLUS_FIRST.fact
    for slot, node in sorted(gang.nodes.items()):
        pod = snapshot.member(gang.job_uid, slot)
        if not is_over(job, slot, pod):
            yield from _of_member(snapshot, slot, pod, node)
    for pod in (snapshot.pods[uid] for uid in sorted(snapshot.strays.get(gang.job_uid, ()))):
        if pod.holds_room:
            yield f"the replaced pod {pod.name} still holds room"
    for name in sorted(set(gang.nodes.values())):
        if not snapshot.charged.get(name, NOTHING).fits(snapshot.nodes[name].allocatable):
            yield f"node {name} has no room for all pods that are planned there"


def _of_member(snapshot: Snapshot, slot: Slot, pod: Pod | None, name: str) -> Iterator[str]:
    """Yield in words why the member cannot be bound to its planned node ``name`` now; nothing if it can or is bound."""
    node = snapshot.nodes.get(name)
    if pod is None or pod.terminating or pod.ended:
        yield f"{slot} has no pod yet"
    elif node is None or not node.usable:
        yield f"node {name} takes no pods now"
    elif pod.node:
        return
    elif pod.gated:
        yield f"{slot} still has its scheduling gate"
    elif not pod.opted_in:
        yield f"the pod of {slot} does not have Kohort's schedulerName"
    elif pod.places is None or not accepts(node, pod.places):
        yield f"the taints or labels of node {name} keep {slot} off it"
