"""Creates the Binding of one pod, and finds out after a conflict (409) whether the pod is bound as wanted."""

from __future__ import annotations

from collections.abc import Mapping

from extender.kube.api import PODS, Api, ClusterError, Done, Outcome, Ref, Refused, Unknown
from extender.kube.fields import part, text
from extender.kube.jobkinds import PLAN
from policy.cluster.actions import Bind


async def create_binding(api: Api, bind: Bind, notes: Mapping[str, str]) -> Outcome:
    """Create the Binding, with the plan and ``notes`` as annotations, and return its outcome.

    A pod that is already bound to the same node counts as Done.
    """
    outcome = await api.bind(bind.namespace, bind.name, bind.uid, bind.node, {PLAN: bind.plan, **notes})
    if isinstance(outcome, Refused) and outcome.status == 409:
        return await look_again(api, bind.namespace, bind.name, bind.uid, bind.node, outcome)
    return outcome


async def look_again(api: Api, namespace: str, name: str, uid: str, node: str, conflict: Refused) -> Outcome:
    """Read the pod after its Binding was refused with 409, and return the outcome that the pod shows.

    The outcome is Done where the pod is bound to ``node``, Unknown where the pod cannot be read, and otherwise
    ``conflict``. The API server refuses every second Binding of a pod with 409, even one to the same node.
    """
    try:
        pod = await api.get(Ref(PODS, namespace, name))
    except ClusterError as error:
        return Unknown(str(error))
    if pod is not None and text(part(pod, "metadata"), "uid") == uid and text(part(pod, "spec"), "nodeName") == node:
        return Done(pod)
    return conflict
