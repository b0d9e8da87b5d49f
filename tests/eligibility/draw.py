"""Draws pairs of a pod and a node, with the other pods, volumes and nodes that a plugin of kube-scheduler looks at.

A pair begins as a pod that its node takes. Then up to three traits are drawn: each concerns one plugin, and about every
second time it makes the plugin refuse the node. Every pair has nodes of its own, and its pod allows no other node, so
that thousands of pairs are judged beside each other on one control plane.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Json = dict[str, Any]
SCHEDULER: Final = "pairs"  # the profile of the pods on which the verdicts are compared
FOREIGN: Final = "foreign"  # a second profile of the same kube-scheduler, which keeps room for nominated pods
NAMESPACES: Final = ("east", "west")
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
PRIORITIES: Final = {"lower": -10, "higher": 10}
OVERHEADS: Final[Mapping[str, Json]] = {
    "plain": {},
    "heavy": {"overhead": {"podFixed": {"cpu": "250m", "memory": "64Mi"}}},
    "choosy": {
        "scheduling": {
            "nodeSelector": {"runtime": "choosy"},
            "tolerations": [{"key": "runtime", "operator": "Exists", "effect": "NoSchedule"}],
        }
    },
}
"""The RuntimeClasses: what each adds to a pod that names it."""
HOLD: Final = "tests.kohort.dev/hold"  # a gate, and a finalizer, that nobody removes
GIB: Final = 2**30
CPU, MEMORY = 8000, 16 * GIB
TRAITS_DRAWN: Final = ((0, 1), (1, 5), (2, 3), (3, 1))  # how many traits a pair has, and how often


@dataclass(slots=True)
class Pair:
    """One pod, the node that it is pinned to, and what else exists for this pair.

    nodes: the pair's nodes; the pod is pinned to the first. others: pods that exist before the pod is scheduled; a
    ``status`` in them is written after their creation, and a ``deletionTimestamp`` stands for a deletion. volumes:
    PersistentVolumes and claims of volumes and devices. traits: the names of the traits that were drawn.
    """

    number: int
    nodes: list[Json]
    pod: Json
    others: list[Json] = field(default_factory=list)
    volumes: list[Json] = field(default_factory=list)
    traits: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the pod and of its node."""
        return f"pair-{self.number}"

    @property
    def node(self) -> Json:
        """The node that the pod is pinned to."""
        return self.nodes[0]

    @property
    def allocatable(self) -> Json:
        """The allocatable resources of the node: quantity by name."""
        found: Json = self.node["status"]["allocatable"]
        return found

    @property
    def spec(self) -> Json:
        """The pod's spec."""
        found: Json = self.pod["spec"]
        return found

    @property
    def main(self) -> Json:
        """The pod's first container."""
        found: Json = self.spec["containers"][0]
        return found

    @property
    def labels(self) -> Json:
        """The node's labels."""
        found: Json = self.node["metadata"]["labels"]
        return found

    @property
    def requests(self) -> Json:
        """The requests of the pod's first container: quantity by name."""
        found: Json = self.main["resources"]["requests"]
        return found

    def other(self, requests: Json | None = None, node: str | None = None, **spec: Any) -> Json:
        """Add a running pod on the pair's node, or on the node ``node``, and return it; "" leaves it without a node."""
        where = self.name if node is None else node
        made = pod(f"{self.name}-other-{len(self.others)}", self.pod["metadata"]["namespace"], requests or {})
        made["spec"] |= {"schedulerName": FOREIGN, **({"nodeName": where} if where else {}), **spec}
        made["status"] = {"phase": "Running" if where else "Pending"}
        self.others.append(made)
        return made


def pod(name: str, namespace: str, requests: Json) -> Json:
    """Return a pod of one container with these requests."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {}},
        "spec": {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 3600,
            "containers": [container("main", requests)],
        },
    }


def container(name: str, requests: Json, **more: Any) -> Json:
    """Return a container with these requests."""
    return {"name": name, "image": "none", "resources": {"requests": dict(requests)}, **more}


def node(name: str, zone: str) -> Json:
    """Return a ready node, without a kubelet."""
    amounts = {"cpu": f"{CPU}m", "memory": str(MEMORY), "ephemeral-storage": "20Gi", "pods": "20"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: zone}, "annotations": {}},
        "spec": {},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


Trait = Callable[[Pair, random.Random], None]


def pairs(seed: int, count: int) -> Iterator[Pair]:
    """Yield the pairs of a seed; the first pairs have one trait each, so that few pairs have every trait."""
    chance = random.Random(f"pairs {seed}")
    names = sorted(TRAITS)
    chance.shuffle(names)
    for number in range(count):
        if number < len(names):
            drawn = [names[number]]
        else:
            [several] = chance.choices(*zip(*TRAITS_DRAWN, strict=True))
            drawn = sorted(set(chance.sample([*names, *OFTEN, *OFTEN], several)))
        yield pair(number, drawn, chance)


def pair(number: int, traits: Sequence[str], chance: random.Random) -> Pair:
    """Return a pair with these traits."""
    name = f"pair-{number}"
    made = Pair(
        number,
        [node(name, name)],
        pod(name, chance.choice(NAMESPACES), {"cpu": "500m", "memory": "256Mi"}),
        traits=sorted(traits),
    )
    made.pod["metadata"]["labels"] = {"pair": name, "app": chance.choice(("a", "b"))}
    for trait in sorted(traits):
        TRAITS[trait](made, chance)
    _pin(made, chance)
    return made


def _pin(made: Pair, chance: random.Random) -> None:
    """Let the pod allow its own node alone: by the node's name, or by the node's label with its name."""
    if chance.random() < 0.5:
        made.spec.setdefault("nodeSelector", {})[HOSTNAME] = made.name
        return
    only = {"key": "metadata.name", "operator": "In", "values": [made.name]}
    required = _required(made)
    for term in required.setdefault("nodeSelectorTerms", [{}]):
        term.setdefault("matchFields", []).append(only)


def _required(made: Pair) -> Json:
    """Return the pod's required node affinity, which is empty where it was missing."""
    affinity = made.spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    found: Json = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    return found


# -- NodeResourcesFit ------------------------------------------------------------------------------


def cpu(made: Pair, chance: random.Random) -> None:
    """The pod asks for a millicore more or less than is free, or for just that."""
    whole, taken = chance.choice((1000, 1999, 4000)), [chance.randint(1, 300) for _ in range(chance.randint(0, 3))]
    for amount in taken:
        made.other({"cpu": f"{amount}m"})
    made.allocatable["cpu"] = f"{whole}m"
    made.requests["cpu"] = f"{whole - sum(taken) + chance.choice((-1, 0, 0, 1))}m"


def memory(made: Pair, chance: random.Random) -> None:
    """The pod asks for a byte more or less than is free, or for just that; the quantities have any unit."""
    whole, taken = GIB, [chance.randint(1, 2**27) for _ in range(chance.randint(0, 2))]
    for amount in taken:
        made.other({"memory": str(amount)})
    made.allocatable["memory"] = chance.choice(("1Gi", str(GIB), "1048576Ki", f"{GIB}000m"))
    made.requests["memory"] = str(whole - sum(taken) + chance.choice((-1, 0, 0, 1)))


def fractions(made: Pair, chance: random.Random) -> None:
    """Two containers ask for fractions of a millicore or a byte, whose sum may be a whole number."""
    half = 2**27
    if chance.random() < 0.5:
        name, asked = "cpu", [f"{500_000 + chance.choice((-500, 0, 1, 500, 999))}u" for _ in range(2)]
        made.allocatable[name] = chance.choice(("1", "1001m", "1000001u", "1002m"))
    else:
        name, asked = "memory", [f"{half * 1000 + chance.choice((-500, 0, 1, 500, 999))}m" for _ in range(2)]
        made.allocatable[name] = chance.choice((str(2 * half), str(2 * half + 1), f"{2000 * half + 1}m"))
    made.requests[name] = asked[0]
    made.spec["containers"].append(container("second", {name: asked[1]}))


def extended(made: Pair, chance: random.Random) -> None:
    """The pod asks for devices, of which the node has none, too few or enough."""
    asked, there = chance.randint(1, 3), chance.randint(0, 4)
    if there:
        made.allocatable["example.com/gpu"] = str(there)
        if chance.random() < 0.5:
            taken = {"example.com/gpu": str(chance.randint(1, there))}
            made.other(taken)["spec"]["containers"][0]["resources"]["limits"] = taken
    _limited(made.main, "example.com/gpu", str(asked))


def hugepages(made: Pair, chance: random.Random) -> None:
    """The pod asks for huge pages."""
    made.allocatable["hugepages-2Mi"] = chance.choice(("0", "64Mi", "128Mi"))
    _limited(made.main, "hugepages-2Mi", chance.choice(("64Mi", "66Mi", "128Mi")))


def storage(made: Pair, chance: random.Random) -> None:
    """The pod asks for ephemeral storage."""
    made.other({"ephemeral-storage": "5Gi"})
    made.requests["ephemeral-storage"] = chance.choice(("15Gi", "16Gi", "10G", "16106127361"))


def bandwidth(made: Pair, chance: random.Random) -> None:
    """The pod asks for network bandwidth, which the node's annotation states, and perhaps its status, too."""
    made.node["metadata"]["annotations"]["kohort.dev/network-bandwidth"] = "10G"
    if chance.random() < 0.5:
        made.allocatable["kohort.dev/network-bandwidth"] = chance.choice(("100", "10000"))
    if chance.random() < 0.7:
        _limited(made.main, "kohort.dev/network-bandwidth", "1000")


def number_of_pods(made: Pair, chance: random.Random) -> None:
    """The node may be full of pods."""
    there = chance.randint(0, 3)
    for _ in range(there):
        made.other()
    made.allocatable["pods"] = str(max(0, len(made.others) + chance.choice((-1, 0, 1, 1))))


def init_containers(made: Pair, chance: random.Random) -> None:
    """Init containers and sidecars may need more than the containers."""
    made.allocatable["cpu"] = "2000m"
    made.requests["cpu"] = f"{chance.choice((400, 500, 1000))}m"
    made.spec["initContainers"] = [
        container(f"init-{number}", {"cpu": f"{chance.choice((300, 500, 1000, 1500, 1501))}m"}, **sidecar)
        for number, sidecar in enumerate(chance.choices(({}, {"restartPolicy": "Always"}), k=chance.randint(1, 3)))
    ]


def overhead(made: Pair, chance: random.Random) -> None:
    """The pod's RuntimeClass adds an overhead, or a node selector and a toleration."""
    made.spec["runtimeClassName"] = chance.choice(("plain", "heavy", "heavy", "choosy", "choosy"))
    made.allocatable["cpu"] = "2000m"
    made.requests["cpu"] = chance.choice(("1750m", "1751m", "2000m"))
    made.allocatable["memory"] = str(GIB)
    if chance.random() < 0.7:
        made.labels["runtime"] = "choosy"
    if chance.random() < 0.3:
        _taint(made, "runtime", "", "NoSchedule")


def pod_level(made: Pair, chance: random.Random) -> None:
    """The pod states its resources as a whole."""
    made.allocatable["cpu"] = "2000m"
    made.requests["cpu"] = "900m"
    made.spec["containers"].append(container("second", {"cpu": "900m"}))
    made.spec["resources"] = {
        chance.choice(("requests", "limits")): {"cpu": chance.choice(("1800m", "2000m", "2001m", "3"))}
    }


def resized(made: Pair, chance: random.Random) -> None:
    """Another pod is being resized: it holds the larger of what it asks for and what it has."""
    made.allocatable["cpu"] = "2000m"
    other = made.other({"cpu": "300m"})
    granted = {"cpu": chance.choice(("100m", "300m", "1000m"))}
    other["status"]["containerStatuses"] = [
        {
            "name": "main", "image": "none", "imageID": "", "ready": True, "restartCount": 0,
            "state": {"running": {}}, "allocatedResources": granted, "resources": {"requests": granted},
        }
    ]  # fmt: skip
    made.requests["cpu"] = chance.choice(("1000m", "1001m", "1700m", "1701m"))


def ended(made: Pair, chance: random.Random) -> None:
    """Another pod has ended, or is terminating, or has no node yet."""
    made.allocatable["cpu"] = "2000m"
    state = chance.choice(("Succeeded", "Failed", "Unknown", "terminating", "Pending", "nowhere"))
    other = made.other({"cpu": "1"}, node="" if state == "nowhere" else None)
    if state == "nowhere":
        other["spec"]["schedulerName"] = "nobody"
    elif state == "terminating":
        other["metadata"] |= {"deletionTimestamp": "now", "finalizers": [HOLD]}
    else:
        other["status"]["phase"] = state
    made.requests["cpu"] = chance.choice(("1", "1001m"))


def unreadable(made: Pair, chance: random.Random) -> None:
    """The pod's requests have many digits, an exponent or a small unit."""
    made.allocatable["cpu"] = "1"
    made.requests["cpu"] = chance.choice(("0.999999999", "1e0", "1000000u", "1000001u", "1.0000000001", "1E-3", ".5"))
    made.requests["memory"] = chance.choice(("1e8", "0.1Gi", "1E", "9223372036854775807", "1Ei", "123456789n"))


def _limited(one: Json, name: str, amount: str) -> None:
    """Set request and limit of a resource that must have both."""
    for kind in ("requests", "limits"):
        one["resources"].setdefault(kind, {})[name] = amount


# -- TaintToleration, NodeUnschedulable ------------------------------------------------------------

KEYS: Final = ("gpu", "dedicated", *(f"node.kubernetes.io/{key}" for key in (
    "unschedulable", "not-ready", "unreachable", "memory-pressure",
)))  # fmt: skip
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def taints(made: Pair, chance: random.Random) -> None:
    """The node has taints, of which the pod may tolerate some."""
    for _ in range(chance.randint(1, 2)):
        key, value, effect = chance.choice(KEYS), chance.choice(("", "yes", "no")), chance.choice(EFFECTS)
        _taint(made, key, value, effect)
        if chance.random() < 0.75:
            made.spec.setdefault("tolerations", []).append(_toleration(key, value, effect, chance))


def _taint(made: Pair, key: str, value: str, effect: str) -> None:
    found = made.node["spec"].setdefault("taints", [])
    if (key, effect) not in {(one["key"], one["effect"]) for one in found}:
        found.append({"key": key, "value": value, "effect": effect})


def _toleration(key: str, value: str, effect: str, chance: random.Random) -> Json:
    """Return a toleration of that taint, or one that differs from it in one part."""
    made: Json = {"key": key, "operator": "Equal", "value": value, "effect": effect}
    match chance.choice(("same", "same", "exists", "exists", "all", "effect", "any effect", "key", "value", "none")):
        case "exists":
            del made["value"]
            made["operator"] = "Exists"
        case "all":
            made = {"operator": "Exists", **({"effect": effect} if chance.random() < 0.5 else {})}
        case "effect":
            made["effect"] = chance.choice(EFFECTS)
        case "any effect":
            del made["effect"]
        case "key":
            made["key"] = chance.choice(KEYS)
        case "value":
            made["value"] = chance.choice(("", "yes", "no"))
        case "none":
            del made["operator"]
        case _:
            pass
    if made.get("effect") == "NoExecute" and chance.random() < 0.3:
        made["tolerationSeconds"] = 60
    return made


def unschedulable(made: Pair, chance: random.Random) -> None:
    """The node is cordoned, and the pod may tolerate that."""
    made.node["spec"]["unschedulable"] = True
    if chance.random() < 0.5:
        made.spec.setdefault("tolerations", []).append({"key": KEYS[2], "operator": "Exists"})


def not_ready(made: Pair, chance: random.Random) -> None:
    """The node is not ready, and no controller has tainted it."""
    made.node["status"]["conditions"][0]["status"] = chance.choice(("False", "Unknown"))


# -- NodeAffinity ----------------------------------------------------------------------------------

NUMBERS: Final = ("0", "1", "7", "007", "10", "1_0", "1.5", "1e1", "0x7", "9223372036854775807", "9223372036854775808")
VALUES: Final = ("", "a", "b", "A", *NUMBERS)


def node_selector(made: Pair, chance: random.Random) -> None:
    """The pod selects nodes by labels, which the node may have with these or other values."""
    selector = made.spec.setdefault("nodeSelector", {})
    for key in chance.sample(("pool", "disk", "example.com/kind"), chance.randint(1, 2)):
        selector[key] = chance.choice(VALUES[:4])
        if chance.random() < 0.8:
            made.labels[key] = selector[key] if chance.random() < 0.7 else chance.choice(VALUES[:4])


def node_affinity(made: Pair, chance: random.Random) -> None:
    """The pod has a required node affinity of one or two terms, with every operator."""
    for key in ("pool", "level"):
        if chance.random() < 0.8:
            made.labels[key] = chance.choice(VALUES)
    terms = [_term(made, chance) for _ in range(chance.randint(1, 2))]
    _required(made).setdefault("nodeSelectorTerms", []).extend(terms)


def _term(made: Pair, chance: random.Random) -> Json:
    term: Json = {}
    for _ in range(chance.choice((0, 1, 1, 1, 2))):
        term.setdefault("matchExpressions", []).append(_need(made, chance))
    if chance.random() < 0.3:
        there = chance.choice((made.name, "elsewhere"))
        need = {"key": "metadata.name", "operator": chance.choice(("In", "NotIn")), "values": [there]}
        term.setdefault("matchFields", []).append(need)
    return term


def _need(made: Pair, chance: random.Random) -> Json:
    key = chance.choice(("pool", "level", "missing"))
    operator = chance.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    need: Json = {"key": key, "operator": operator}
    if operator in ("Gt", "Lt"):
        need["values"] = [chance.choice(NUMBERS)]
        if chance.random() < 0.8:
            made.labels[key] = chance.choice(NUMBERS)
    elif operator in ("In", "NotIn"):
        need["values"] = chance.sample(VALUES, chance.randint(1, 3))
    return need


def numbers(made: Pair, chance: random.Random) -> None:
    """A label of the node is to be larger or smaller than a number, and may be a number in some languages only."""
    made.labels["level"] = chance.choice(NUMBERS)
    need = {"key": "level", "operator": chance.choice(("Gt", "Lt")), "values": [chance.choice(NUMBERS)]}
    _required(made).setdefault("nodeSelectorTerms", []).append({"matchExpressions": [need]})


def preferred(made: Pair, chance: random.Random) -> None:
    """The pod prefers other nodes, and other pods' company or absence; none of this forbids a node."""
    away = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["nowhere"]}]}
    affinity = made.spec.setdefault("affinity", {})
    name = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity.setdefault("nodeAffinity", {})[name] = [{"weight": 1, "preference": away}]
    kind = chance.choice(("podAffinity", "podAntiAffinity"))
    affinity.setdefault(kind, {})[name] = [{"weight": 1, "podAffinityTerm": _selects(HOSTNAME, {"pair": made.name})}]
    made.other()["metadata"]["labels"]["pair"] = made.name


# -- NodePorts, volumes, PodTopologySpread ---------------------------------------------------------


def host_ports(made: Pair, chance: random.Random) -> None:
    """The pod wants a port of its node, which another pod may have."""
    made.main["ports"] = [_port(chance)]
    if chance.random() < 0.2:
        made.spec["hostNetwork"] = True
        made.main["ports"] = [{"containerPort": 80, "hostPort": 80}]
    if chance.random() < 0.7:
        made.other()["spec"]["containers"][0]["ports"] = [_port(chance)]


def _port(chance: random.Random) -> Json:
    number, protocol = chance.choice((80, 80, 443)), chance.choice(("TCP", "TCP", "UDP"))
    return {"containerPort": 8080, "hostPort": number, "protocol": protocol, "hostIP": chance.choice(("", "10.0.0.1"))}


def harmless_volumes(made: Pair, chance: random.Random) -> None:
    """The pod's volumes are of kinds that every node can mount."""
    kinds: Sequence[Json] = (
        {"emptyDir": {}}, {"configMap": {"name": "missing"}}, {"secret": {"secretName": "missing"}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"projected": {"sources": [{"configMap": {"name": "missing"}}]}}, {},
    )  # fmt: skip
    made.spec["volumes"] = [{"name": f"v{i}", **kind} for i, kind in enumerate(chance.sample(kinds, 2))]


def volumes(made: Pair, chance: random.Random) -> None:
    """The pod has a volume of another kind: a claim that is missing, unbound or bound, or one that needs no claim."""
    kind = chance.choice(("missing", "unbound", "here", "here", "elsewhere", "hostPath", "nfs", "ephemeral", "csi"))
    name, namespace = made.name, made.pod["metadata"]["namespace"]
    source: Json = {"persistentVolumeClaim": {"claimName": name}}
    if kind == "hostPath":
        source = {"hostPath": {"path": "/tmp"}}
    elif kind == "nfs":
        source = {"nfs": {"server": "nobody", "path": "/"}}
    elif kind == "csi":
        source = {"csi": {"driver": "example.com"}}
    elif kind == "ephemeral":
        source = {"ephemeral": {"volumeClaimTemplate": {"spec": _claim_spec()}}}
    elif kind != "missing":
        made.volumes.append({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": namespace},
            "spec": _claim_spec(),
        })  # fmt: skip
    if kind in ("here", "elsewhere"):
        _bind_volume(made, made.name if kind == "here" else "elsewhere")
    made.spec["volumes"] = [{"name": "data", **source}]


def _claim_spec() -> Json:
    return {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}


def _bind_volume(made: Pair, where: str) -> None:
    """Let the pair's claim be bound to a volume that can be mounted on the node ``where`` alone."""
    claim = made.volumes[-1]
    claim["spec"]["volumeName"] = made.name
    claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    claim["status"] = {"phase": "Bound"}
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [where]}]}
    made.volumes.append({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": made.name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/tmp"},
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": made.pod["metadata"]["namespace"],
                         "name": made.name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
        "status": {"phase": "Bound"},
    })  # fmt: skip


def spread(made: Pair, chance: random.Random) -> None:
    """The pod is to be spread over nodes, of which its own may have more pods than others."""
    for _ in range(chance.randint(0, 2)):
        made.other()["metadata"]["labels"]["pair"] = made.name
    made.spec["topologySpreadConstraints"] = [{
        "maxSkew": 1, "topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"pair": made.name}},
        "whenUnsatisfiable": chance.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        "nodeAffinityPolicy": "Ignore",
    }]  # fmt: skip


# -- InterPodAffinity ------------------------------------------------------------------------------

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _selects(topology: str, labels: Json, **more: Any) -> Json:
    return {"topologyKey": topology, "labelSelector": {"matchLabels": labels}, **more}


def own_affinity(made: Pair, chance: random.Random) -> None:
    """The pod requires another pod's company or absence."""
    kind = chance.choice(("podAffinity", "podAntiAffinity"))
    term = _selects(chance.choice((HOSTNAME, ZONE)), {"friend": made.name})
    made.spec.setdefault("affinity", {}).setdefault(kind, {})[REQUIRED] = [term]
    if chance.random() < 0.5:
        made.other()["metadata"]["labels"]["friend"] = made.name


def anti_affinity_of_another(made: Pair, chance: random.Random) -> None:
    """Another pod, on the node or beside it in the same zone, requires the absence of pods like this one."""
    own = made.pod["metadata"]["namespace"]
    where = [chance.choice((own, own, *NAMESPACES)), *chance.sample(NAMESPACES, 1)][: chance.randint(1, 2)]
    scope: Json = chance.choice((
        {}, {"namespaces": where}, {"namespaceSelector": {}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": chance.choice(NAMESPACES)}}},
        {"namespaces": where, "namespaceSelector": {"matchLabels": {"no": "namespace"}}},
    ))  # fmt: skip
    labels = chance.choice(({"pair": made.name}, {"pair": made.name}, {"pair": "another"}, {}))
    topology, beside = chance.choice((HOSTNAME, ZONE, ZONE)), None
    if topology == ZONE and chance.random() < 0.7:
        beside = f"{made.name}-b"
        made.nodes.append(node(beside, made.name))
    state = chance.choice(("bound", "bound", "bound", "bound", "ended", "unbound"))
    other = made.other(
        node="" if state == "unbound" else beside,
        affinity={"podAntiAffinity": {REQUIRED: [_selects(topology, labels, **scope)]}},
    )
    other["metadata"]["namespace"] = chance.choice((own, *NAMESPACES))
    if state == "ended":
        other["status"]["phase"] = "Succeeded"
    elif state == "unbound":
        other["spec"]["schedulerName"] = "nobody"


# -- everything else -------------------------------------------------------------------------------


def claims(made: Pair, chance: random.Random) -> None:
    """The pod has a resource claim, for nothing or for a device that no node has, or it asks for a device class."""
    if chance.random() < 0.3:
        _limited(made.main, "deviceclass.resource.kubernetes.io/missing", "1")
        return
    # A pod whose claim is missing never leaves the queue, so that kube-scheduler would give no verdict.
    made.spec["resourceClaims"] = [{"name": "device", "resourceClaimName": made.name}]
    devices: Json = {"requests": [{"name": "device", "exactly": {"deviceClassName": "missing"}}]}
    made.volumes.append({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": made.name, "namespace": made.pod["metadata"]["namespace"]},
        "spec": {"devices": devices if chance.random() < 0.5 else {}},
    })  # fmt: skip


def gates(made: Pair, chance: random.Random) -> None:
    """The pod has a gate of another controller, or Kohort's own."""
    made.spec["schedulingGates"] = [{"name": chance.choice((HOLD, "kohort.dev/admission"))}]


def nominated(made: Pair, chance: random.Random) -> None:
    """kube-scheduler keeps room on the node for a pod of a lower, the same or a higher priority."""
    made.allocatable["cpu"] = "2000m"
    other = made.other({"cpu": "1"}, node="", schedulingGates=[{"name": HOLD}])
    other["status"] |= {"nominatedNodeName": made.name}
    for one in (other, made.pod):
        if chance.random() < 0.5:
            one["spec"]["priorityClassName"] = chance.choice(sorted(PRIORITIES))
    made.requests["cpu"] = chance.choice(("500m", "1", "1001m", "1500m", "2"))


def group(made: Pair, chance: random.Random) -> None:
    """The pod names a pod group, which the API server drops while the feature is off."""
    made.spec["schedulingGroup"] = {"podGroupName": "missing"}


def user_namespace(made: Pair, chance: random.Random) -> None:
    """The pod has a user namespace of its own, alone or together with its node's network."""
    made.spec["hostUsers"] = False
    if chance.random() < 0.5:
        made.spec["hostNetwork"] = True


def restart_rules(made: Pair, chance: random.Random) -> None:
    """A container says by its exit code whether it, or the whole pod, is restarted."""
    action = chance.choice(("Restart", "RestartAllContainers"))
    rule = {"action": action, "exitCodes": {"operator": "In", "values": [42]}}
    made.main.update(restartPolicy="Never", restartPolicyRules=[rule])


def mount_options(made: Pair, chance: random.Random) -> None:
    """A container mounts a volume with options, which need a node that knows them."""
    made.spec["volumes"] = [{"name": "data", "emptyDir": {}}]
    made.main["volumeMounts"] = [{"name": "data", "mountPath": "/data", "bindMountOptions": ["noexec"]}]


TRAITS: Final[Mapping[str, Trait]] = {
    made.__name__.replace("_", " "): made
    for made in (
        cpu, memory, fractions, extended, hugepages, storage, bandwidth, number_of_pods, init_containers, overhead,
        pod_level, resized, ended, unreadable, taints, unschedulable, not_ready, node_selector, node_affinity, numbers,
        preferred, host_ports, harmless_volumes, volumes, spread, own_affinity, anti_affinity_of_another, claims,
        gates, nominated, group, user_namespace, restart_rules, mount_options,
    )
}  # fmt: skip
"""Every trait by its name."""
OFTEN: Final = (
    "anti affinity of another", "cpu", "ended", "init containers", "node affinity", "nominated", "numbers",
    "overhead", "taints",
)  # fmt: skip
"""Traits that are drawn three times as often: Kohort checks what they are about, and each has many cases."""
