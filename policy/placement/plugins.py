"""What each plugin of kube-scheduler 1.37 looks at when it decides whether a node takes a pod, and what Kohort checks.

With ``barrier.commit: first`` Kohort binds members that no plugin has seen. That is safe only if each plugin would look
at nothing but what Kohort's own placement checks (``policy/placement/fit.py``, ``room.py``). The sources are
``pkg/scheduler/framework/plugins`` of Kubernetes and the list of default plugins in ``pkg/scheduler/apis/config/v1``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

GATES: Final = "schedulingGates"
HOST_PORTS: Final = "hostPort"
VOLUMES: Final = "volumes"
SPREAD: Final = "topologySpreadConstraints"
AFFINITY: Final = "affinity.podAffinity"
ANTI_AFFINITY: Final = "affinity.podAntiAffinity"
CLAIMS: Final = "resourceClaims"
DEVICE_CLASS: Final = "a device class"
REQUESTS: Final = "requests that cannot be read"
BANDWIDTH: Final = "a request of network bandwidth"
GROUP: Final = "schedulingGroup"
RESTART_ALL: Final = "restartPolicyRules"
USER_NAMESPACE: Final = "hostUsers"
MOUNT_OPTIONS: Final = "bindMountOptions"


@dataclass(frozen=True, slots=True)
class Plugin:
    """One plugin of kube-scheduler.

    fields: the parts of a pod's spec at which the plugin looks and which Kohort does not check.
    checked: what else the plugin looks at, in words; Kohort's placement checks it. Both are empty for a plugin that can
    refuse no node, because it only orders or scores, or acts after nodes have been refused.
    others: whether pods that are already bound can make the plugin refuse a node for another pod.
    """

    name: str
    fields: tuple[str, ...] = ()
    checked: str = ""
    others: bool = False


_ROWS: Final = (
    Plugin("SchedulingGates", (GATES,)),
    Plugin("PrioritySort"),
    # The plugin NodeName refuses no node, because a pod whose spec names a node never enters kube-scheduler's queue.
    Plugin("NodeName"),
    Plugin("NodeUnschedulable", checked="spec.unschedulable of the node"),
    Plugin("TaintToleration", checked="the node's taints and the pod's tolerations"),
    Plugin("NodeAffinity", checked="nodeSelector and the required node affinity"),
    Plugin("NodePorts", (HOST_PORTS,)),
    # Kohort takes a node's bandwidth from an annotation, which the plugin does not read.
    Plugin("NodeResourcesFit", (REQUESTS, BANDWIDTH), checked="requests, allocatable resources and the number of pods"),
    Plugin("VolumeRestrictions", (VOLUMES,)),
    Plugin("NodeVolumeLimits", (VOLUMES,)),
    Plugin("VolumeBinding", (VOLUMES,)),
    Plugin("VolumeZone", (VOLUMES,)),
    Plugin("PodTopologySpread", (SPREAD,)),
    Plugin("InterPodAffinity", (AFFINITY, ANTI_AFFINITY), others=True),
    Plugin("DynamicResources", (CLAIMS, DEVICE_CLASS)),
    Plugin("DefaultPreemption"),
    Plugin("NodeResourcesBalancedAllocation"),
    Plugin("ImageLocality"),
    Plugin("DefaultBinder"),
    Plugin("NodeDeclaredFeatures", (RESTART_ALL, USER_NAMESPACE, MOUNT_OPTIONS)),
    # The four plugins below are off by default. DeferredPodScheduling looks only at bound pods that wait for a resize.
    Plugin("DeferredPodScheduling"),
    Plugin("GangScheduling", (GROUP,)),
    Plugin("TopologyPlacementGenerator", (GROUP,)),
    Plugin("PodGroupPodsCount", (GROUP,)),
)
PLUGINS: Final[Mapping[str, Plugin]] = {plugin.name: plugin for plugin in _ROWS}
FIELDS: Final = frozenset(field for plugin in _ROWS for field in plugin.fields)
"""The parts of a pod's spec that are looked for in pods; ``Pod.unchecked`` has those that a pod has."""
REPELS: Final = next(plugin.name for plugin in _ROWS if plugin.others)


def plugins_at(field: str) -> tuple[str, ...]:
    """Return the names of the plugins that look at this part of a pod's spec."""
    return tuple(plugin.name for plugin in _ROWS if field in plugin.fields)


def unknown(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the plugins' names that are not in the table ``PLUGINS``, in the given order."""
    return tuple(name for name in names if name not in PLUGINS)
