"""DefaultPreemption: find a node on which a pod fits once certain pods of lower priority are gone (its victims).

The module imitates parts of pkg/scheduler/framework/preemption: which pods may preempt; the victims on a node; the
choice of a node; and the writes, which are first the condition DisruptionTarget and then the deletion. A node's victims
are all pods of lower priority, except those beside which the pod still fits; pods of the highest priority are the first
that may stay. The chosen node is the one whose victims have the lowest highest priority, then the lowest sum of
priorities, then the smallest number. Disruption budgets, affinity and the victims' start times are not imitated.
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.clock import Clock
from extender.kube.api import PODS, Api, Ref, Refused
from lab.embedded import plugins
from lab.embedded.apirules import condition, with_condition
from lab.embedded.cache import PodInfo, SchedulerCache
from policy.cluster.node import Node
from policy.cluster.resources import total

TEXT = "preempting to accommodate a higher priority pod"


def may_preempt(cache: SchedulerCache, pod: PodInfo) -> bool:
    """Tell whether the pod may preempt others (PodEligibleToPreemptOthers in kube-scheduler).

    The pod may not preempt while a pod of lower priority is still terminating on the node for which it is nominated.
    """
    on_node = (other for other in cache.pods.values() if pod.nominated and other.node == pod.nominated)
    return not any(other.deleting and other.priority < pod.priority for other in on_node)


def best_victims(cache: SchedulerCache, pod: PodInfo) -> tuple[str, list[PodInfo]]:
    """Return the name of the best node on which to preempt, and the victims on it; the name is empty if preemption does
    not help.
    """
    if not any(other.priority < pod.priority for other in cache.pods.values()):
        return "", []
    found = {name: _victims(cache, pod, node) for name, node in sorted(cache.nodes.items())}
    costs = {name: _cost(victims) for name, victims in found.items() if victims}
    node = min(costs, key=lambda name: costs[name], default="")
    return node, found.get(node) or []


def _cost(victims: list[PodInfo]) -> tuple[int, int, int]:
    priorities = [victim.priority for victim in victims]
    return max(priorities), sum(priorities), len(priorities)


def _victims(cache: SchedulerCache, pod: PodInfo, node: Node) -> list[PodInfo]:
    """Return the victims on the node; none if preemption does not help there, for example because resources are not
    what the node lacks.
    """
    plugin, _ = plugins.refuses(cache, pod, node)
    if plugin != plugins.RESOURCES:
        return []
    free = cache.free(node, pod)
    lower = [other for other in cache.on(node.name) if other.priority < pod.priority]
    free = free + total(other.requests for other in lower)
    if not pod.requests.fits(free):
        return []
    victims = []
    for other in sorted(lower, key=lambda other: (-other.priority, other.uid)):
        if pod.requests.fits(free - other.requests):
            free = free - other.requests
        else:
            victims.append(other)
    return victims


async def evict(api: Api, clock: Clock, victims: Iterable[PodInfo], scheduler: str) -> None:
    """Set the condition DisruptionTarget on each victim and delete it; skip pods that are being deleted already."""
    for victim in victims:
        if victim.deleting:
            continue
        text = f"{scheduler}: {TEXT}"
        new = condition("DisruptionTarget", "True", "PreemptionByScheduler", text, clock.now())
        conditions = with_condition(victim.item.get("status", {}).get("conditions") or (), new)
        ref = Ref(PODS, victim.namespace, victim.name)
        change = {"status": {"conditions": conditions}}
        outcome = await api.patch(ref, change, subresource="status", uid=victim.uid)
        if not isinstance(outcome, Refused):
            await api.delete_pod(victim.namespace, victim.name, victim.uid)
