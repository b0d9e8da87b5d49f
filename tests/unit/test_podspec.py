"""What a pod asks for, as kube-scheduler's PodRequests counts it (k8s.io/component-helpers v0.37.1)."""

from typing import Any

import pytest

from extender.kube.fields import MOST, ObjectError, amount
from extender.kube.podspec import constraints_of, requests_of, unsupported_in
from policy.cluster.constraints import Constraints, Requirement, Term, Toleration
from policy.cluster.resources import Resources

Json = dict[str, Any]
Gi = 2**30


def c(
    *, limits: Json | None = None, sidecar: bool = False, ports: Any = None, name: str = "c", **requests: Any
) -> Json:
    """Return a container with these requests, by resource name."""
    found: Json = {"name": name, "resources": {"requests": requests, "limits": limits}, "ports": ports}
    return found | ({"restartPolicy": "Always"} if sidecar else {})


def asks(requests: Json) -> Json:
    return {"name": "c", "resources": {"requests": requests}}


def pod(*containers: Json, init: tuple[Json, ...] = (), **more: Any) -> Json:
    return {"containers": list(containers), "initContainers": list(init), **more}


def port(container: int, host: int | None = None, protocol: str | None = None) -> Json:
    return {"containerPort": container, "hostPort": host, "protocol": protocol}


REQUESTS: dict[str, tuple[Json, dict[str, int]]] = {
    "nothing asked": (pod(c()), {}),
    "no spec at all": ({}, {}),
    "null everywhere": ({"containers": None, "initContainers": None, "overhead": None, "resources": None}, {}),
    "null in a container": (pod({"name": "c", "resources": None, "ports": None}), {}),
    "containers add up": (pod(c(cpu="1", memory="1Gi"), c(cpu="500m")), {"cpu": 1500, "memory": Gi}),
    "gpus are whole": (pod(asks({"nvidia.com/gpu": "2"})), {"nvidia.com/gpu": 2}),
    "a limit counts where nothing is requested": (pod(c(limits={"cpu": "2", "memory": "1Gi"}, cpu="1")),
                                                  {"cpu": 1000, "memory": Gi}),
    "an explicit zero is a request": (pod(c(limits={"cpu": "2"}, cpu="0")), {}),
    "an init container smaller than the rest is free": (pod(c(cpu="2"), init=(c(cpu="1"),)), {"cpu": 2000}),
    "the largest init container, not their sum": (pod(c(cpu="1"), init=(c(cpu="3"), c(cpu="2"))), {"cpu": 3000}),
    "the larger per resource": (pod(c(cpu="1", memory="4Gi"), init=(c(cpu="3", memory="1Gi"),)),
                                {"cpu": 3000, "memory": 4 * Gi}),
    "a sidecar runs beside the containers": (pod(c(cpu="1"), init=(c(cpu="1", sidecar=True),)), {"cpu": 2000}),
    "an init container beside the sidecars before it": (
        pod(c(cpu="1"), init=(c(cpu="1", sidecar=True), c(cpu="3"))), {"cpu": 4000}),
    "but not beside those after it": (
        pod(c(cpu="1"), init=(c(cpu="3"), c(cpu="1", sidecar=True))), {"cpu": 3000}),
    "another restart policy is no sidecar": (
        pod(c(cpu="1"), init=(c(cpu="1") | {"restartPolicy": "OnFailure"},)), {"cpu": 1000}),
    "overhead is on top": (pod(c(cpu="1"), overhead={"cpu": "250m", "memory": "1Gi"}), {"cpu": 1250, "memory": Gi}),
    "the pod's own requests take the containers' place": (
        pod(c(cpu="1", memory="1Gi"), resources={"requests": {"cpu": "3"}}), {"cpu": 3000, "memory": Gi}),
    "also where they are smaller": (pod(c(cpu="4"), resources={"requests": {"cpu": "3"}}), {"cpu": 3000}),
    "a pod-level limit where no container asks": (
        pod(c(cpu="1"), resources={"limits": {"cpu": "8", "memory": "2Gi"}}), {"cpu": 1000, "memory": 2 * Gi}),
    "gpus are not a pod-level resource": (pod(c(), resources={"requests": {"nvidia.com/gpu": "1"}}), {}),
    "huge pages of the pod, over those of the containers": (
        pod(asks({"hugepages-2Mi": "4Mi"}), resources={"limits": {"hugepages-2Mi": "8Mi"}}),
        {"hugepages-2Mi": 8 * 2**20}),
    "a host port": (pod(c(ports=[port(80, 8080)])), {"hostport/TCP/8080": 1}),
    "protocols have ports of their own": (
        pod(c(ports=[port(53, 53), port(53, 53, "UDP")])), {"hostport/TCP/53": 1, "hostport/UDP/53": 1}),
    "one port named by two containers is one": (
        pod(c(ports=[port(80, 80)]), c(ports=[port(80, 80)])), {"hostport/TCP/80": 1}),
    "a container port is not a host port": (pod(c(ports=[port(2222)])), {}),
    "but is with hostNetwork": (pod(c(ports=[port(2222)]), hostNetwork=True), {"hostport/TCP/2222": 1}),
    "hostNetwork off": (pod(c(ports=[port(2222)]), hostNetwork=False), {}),
    "a sidecar's host port": (pod(c(), init=(c(sidecar=True, ports=[port(1, 9)]),)), {"hostport/TCP/9": 1}),
    "an init container's host port is gone by then": (pod(c(), init=(c(ports=[port(1, 9)]),)), {}),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "want"), REQUESTS.values(), ids=REQUESTS.keys())
def test_requests(spec: Json, want: dict[str, int]) -> None:
    assert requests_of(spec, "spec") == Resources(want | {"pods": 1})


def status(*containers: Json, condition: Json | None = None) -> Json:
    return {"containerStatuses": list(containers), "conditions": [condition] if condition else []}


def now(allocated: str = "", actual: str = "", name: str = "c") -> Json:
    found: Json = {"name": name}
    found |= {"allocatedResources": {"cpu": allocated}} if allocated else {}
    return found | ({"resources": {"requests": {"cpu": actual}}} if actual else {})


INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
RESIZES: dict[str, tuple[Json, int]] = {
    "no word of the kubelet yet": (status(), 2000),
    "as asked": (status(now("2", "2")), 2000),
    "shrinking: still holds the old room": (status(now("3", "3")), 3000),
    "allocated less, still in force": (status(now("1", "4")), 4000),
    "growing: asks for more than it has": (status(now("1", "1")), 2000),
    "growing, deferred": (status(now("1", "1"), condition=DEFERRED), 2000),
    "growing, infeasible: holds what it has": (status(now("1", "1"), condition=INFEASIBLE), 1000),
    "another container's status": (status(now("9", "9", name="other")), 2000),
    "malformed statuses": ({"containerStatuses": [None, 1, {"name": []}, {"name": "c", "resources": 1}]}, 2000),
}


@pytest.mark.parametrize(("found", "want"), RESIZES.values(), ids=RESIZES.keys())
def test_requests_during_a_resize(found: Json, want: int) -> None:
    assert requests_of(pod(c(cpu="2")), "spec", found)["cpu"] == want


def test_containers_that_are_resized_the_other_way_round_count_each_at_its_most() -> None:
    """One container goes from 1 to 3 cpu, another one from 3 to 1: kube-scheduler counts 6, and so does Kohort."""
    both = pod(c(name="a", cpu="3"), c(name="b", cpu="1"))
    found = status(now("1", "1", name="a"), now("3", "3", name="b"))
    assert requests_of(both, "spec", found)["cpu"] == 6000


def as_a_whole(allocated: str, actual: str, condition: Json | None = None) -> Json:
    found = {"allocatedResources": {"cpu": allocated}, "resources": {"requests": {"cpu": actual}}}
    return found | {"conditions": [condition] if condition else []}


RESIZES_OF_THE_POD: dict[str, tuple[Json, int]] = {
    "no word of the kubelet yet": ({}, 2000),
    "as asked": (as_a_whole("2", "2"), 2000),
    "shrinking: still holds the old room": (as_a_whole("8", "8"), 8000),
    "allocated less, still in force": (as_a_whole("1", "4"), 4000),
    "growing": (as_a_whole("1", "1"), 2000),
    "growing, infeasible: holds what it has": (as_a_whole("1", "1", INFEASIBLE), 1000),
    "one of both only": ({"allocatedResources": {"cpu": "9"}}, 2000),
}


@pytest.mark.parametrize(("found", "want"), RESIZES_OF_THE_POD.values(), ids=RESIZES_OF_THE_POD.keys())
def test_requests_during_a_resize_of_the_pod_as_a_whole(found: Json, want: int) -> None:
    """The rule is that of effectivePodLevelResources in component-helpers of Kubernetes 1.37."""
    asked = requests_of(pod(c(cpu="1"), resources={"requests": {"cpu": "2"}}), "spec", found)
    assert asked == Resources({"cpu": want, "pods": 1})


AMOUNTS: dict[str, tuple[str, Any, int]] = {
    "cores": ("cpu", "2", 2000),
    "millicores": ("cpu", "1500m", 1500),
    "a fraction of a core": ("cpu", "0.1", 100),
    "a fraction of a millicore, rounded up": ("cpu", "1500u", 2),
    "the smallest there is, rounded up": ("cpu", "1n", 1),
    "a number instead of a string": ("cpu", 2, 2000),
    "a float": ("cpu", 0.5, 500),
    "binary bytes": ("memory", "1Gi", 2**30),
    "decimal bytes": ("memory", "1G", 10**9),
    "kilobytes are small k": ("memory", "1k", 1000),
    "a fraction of a byte, rounded up": ("memory", "1500m", 2),
    "an exponent": ("memory", "1e3", 1000),
    "a large exponent letter": ("memory", "12E2", 1200),
    "exa": ("memory", "1E", 10**18),
    "exbi": ("memory", "1Ei", 2**60),
    "the most there is": ("memory", str(MOST), MOST),
    "a sign": ("memory", "+5", 5),
    "no digit before the point": ("cpu", ".5", 500),
    "no digit after the point": ("cpu", "5.", 5000),
    "minus zero": ("cpu", "-0", 0),
}


@pytest.mark.parametrize(("name", "text", "want"), AMOUNTS.values(), ids=AMOUNTS.keys())
def test_amounts(name: str, text: Any, want: int) -> None:
    assert amount(name, text, "f") == want


WRONG_AMOUNTS: dict[str, Any] = {
    "negative": "-1",
    "a negative number": -1,
    "a negative trifle": "-1n",
    "not a number": "NaN",
    "a float that is none": float("nan"),
    "infinite": "Infinity",
    "empty": "",
    "a word": "plenty",
    "capital kilo": "1K",
    "small binary": "1ki",
    "an unknown suffix": "1Q",
    "two suffixes": "1mGi",
    "a blank": "1 Gi",
    "a line break": "1\n",
    "a digit of another script": "٣",
    "an underscore": "1_000",
    "hexadecimal": "0x10",
    "an exponent that would fill the memory": "1e999999999",
    "an exponent beyond 64 bits": "1e100",
    "one beyond 64 bits": str(MOST + 1),
    "a huge integer": 10**5000,
    "a huge string": "9" * 1_000_000,
    "a boolean": True,
    "null": None,
    "a list": ["1"],
    "a mapping": {"value": "1"},
}


@pytest.mark.parametrize("text", WRONG_AMOUNTS.values(), ids=WRONG_AMOUNTS.keys())
def test_wrong_amounts_are_refused_by_name(text: Any) -> None:
    with pytest.raises(ObjectError, match=r"^spec\.memory: .+ is not allowed; allowed: .+$") as refused:
        amount("memory", text, "spec")
    assert len(str(refused.value)) < 250


WRONG_SPECS: dict[str, tuple[Json, str]] = {
    "containers as a mapping": ({"containers": {"a": 1}}, "spec.containers"),
    "a container as text": ({"containers": ["c"]}, "spec.containers[0]"),
    "init containers as text": ({"initContainers": "x"}, "spec.initContainers"),
    "resources as a list": (pod({"resources": []}), "spec.containers[0].resources"),
    "requests as a list": (pod({"resources": {"requests": ["cpu"]}}), "spec.containers[0].resources.requests"),
    "a quantity of the second container": (pod(c(), c(cpu="x")), "spec.containers[1].resources.requests.cpu"),
    "a limit": (pod(c(limits={"memory": "1ki"})), "spec.containers[0].resources.limits.memory"),
    "an init container's quantity": (pod(init=(c(cpu="-1"),)), "spec.initContainers[0].resources.requests.cpu"),
    "overhead": (pod(overhead={"cpu": "many"}), "spec.overhead.cpu"),
    "pod-level requests": (pod(resources={"requests": {"cpu": "?"}}), "spec.resources.requests.cpu"),
    "pod-level limits": (pod(resources={"limits": {"cpu": "?"}}), "spec.resources.limits.cpu"),
    "ports as a mapping": (pod(c(ports={})), "spec.containers[0].ports"),
    "a port as text": (pod(c(ports=["80"])), "spec.containers[0].ports[0]"),
    "a host port as text": (pod(c(ports=[{"hostPort": "80"}])), "spec.containers[0].ports[0].hostPort"),
    "a host port of a million": (pod(c(ports=[{"hostPort": 10**6}])), "spec.containers[0].ports[0].hostPort"),
    "a negative host port": (pod(c(ports=[{"hostPort": -1}])), "spec.containers[0].ports[0].hostPort"),
    "hostNetwork as text": (pod(c(), hostNetwork="false"), "spec.hostNetwork"),
}


@pytest.mark.parametrize(("spec", "field"), WRONG_SPECS.values(), ids=WRONG_SPECS.keys())
def test_wrong_requests_are_refused_by_path(spec: Json, field: str) -> None:
    with pytest.raises(ObjectError) as refused:
        requests_of(spec, "spec")
    assert str(refused.value).split(": ", 1)[0] == field


def node_affinity(*terms: Any) -> Json:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def test_constraints() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    name = {"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}
    spec = {
        "nodeSelector": {"disk": "ssd", "arch": "arm"},
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, {"key": "a", "value": "b"}],
        **node_affinity({"matchExpressions": [zone, {"key": "gpu", "operator": "Exists"}], "matchFields": [name]}),
    }
    assert constraints_of(spec, "spec") == Constraints(
        node_selector=(("arch", "arm"), ("disk", "ssd")),
        terms=(
            Term(
                (Requirement("zone", "In", ("a", "b")), Requirement("gpu", "Exists", ())),
                (Requirement("metadata.name", "NotIn", ("n9",)),),
            ),
        ),
        tolerations=(Toleration("gpu", "Exists", "", "NoSchedule"), Toleration("a", "Equal", "b", "")),
    )


AFFINITY = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
WRONG_CONSTRAINTS: dict[str, tuple[Json, str]] = {
    "a selector as a list": ({"nodeSelector": ["a"]}, "spec.nodeSelector"),
    "a selector's value as a number": ({"nodeSelector": {"a": 1}}, "spec.nodeSelector.a"),
    "affinity as text": ({"affinity": "near"}, "spec.affinity"),
    "a term as text": (node_affinity("zone"), AFFINITY),
    "an unknown operator": (
        node_affinity({"matchExpressions": [{"key": "a", "operator": "Like"}]}),
        f"{AFFINITY}.matchExpressions[0].operator",
    ),
    "values as text": (
        node_affinity({"matchFields": [{"key": "a", "operator": "In", "values": "b"}]}),
        f"{AFFINITY}.matchFields[0].values",
    ),
    "tolerations as a mapping": ({"tolerations": {}}, "spec.tolerations"),
    "an unknown toleration operator": ({"tolerations": [{"operator": "Gt"}]}, "spec.tolerations[0].operator"),
    "a toleration's key as a number": ({"tolerations": [{"key": 1}]}, "spec.tolerations[0].key"),
}


@pytest.mark.parametrize(("spec", "field"), WRONG_CONSTRAINTS.values(), ids=WRONG_CONSTRAINTS.keys())
def test_wrong_constraints_are_refused_by_path(spec: Json, field: str) -> None:
    with pytest.raises(ObjectError) as refused:
        constraints_of(spec, "spec")
    assert str(refused.value).split(": ", 1)[0] == field


def affinity(kind: str, when: str) -> Json:
    return {"affinity": {kind: {when: [{"topologyKey": "zone"}]}}}


REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
UNSUPPORTED: dict[str, tuple[Json, tuple[str, ...]]] = {
    "plain": (pod(c()), ()),
    "null": ({"affinity": None, "resourceClaims": None, "schedulingGates": None, "schedulingGroup": None}, ()),
    "devices by claim": ({"resourceClaims": [{"name": "gpu"}]}, ("resourceClaims",)),
    "hard spread": ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
                    ("topologySpreadConstraints",)),
    "spread that does not say": ({"topologySpreadConstraints": [{"whenUnsatisfiable": None}]},
                                 ("topologySpreadConstraints",)),
    "soft spread": ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, ()),
    "required affinity": (affinity("podAffinity", REQUIRED), ("affinity.podAffinity",)),
    "required anti-affinity": (affinity("podAntiAffinity", REQUIRED), ("affinity.podAntiAffinity",)),
    "preferred affinity": (affinity("podAffinity", PREFERRED), ()),
    "preferred anti-affinity": (affinity("podAntiAffinity", PREFERRED), ()),
    "a node by name": ({"nodeName": "n1"}, ("nodeName",)),
    "somebody else's gate": ({"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, ("schedulingGates",)),
    "our gate": ({"schedulingGates": [{"name": "kohort.dev/admission"}]}, ()),
    "a gang of kube-scheduler's own": ({"schedulingGroup": {"podGroupName": "g"}}, ("schedulingGroup",)),
    "volumes are learned from what is offered": ({"volumes": [{"ephemeral": {}}, {"persistentVolumeClaim": {}}]}, ()),
    "a device class": (pod(asks({"deviceclass.resource.kubernetes.io/gpu.example.com": "1"})), ("a device class",)),
    "several": ({"nodeName": "n", "resourceClaims": [{}]}, ("resourceClaims", "nodeName")),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "want"), UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
def test_what_a_plan_cannot_promise(spec: Json, want: tuple[str, ...]) -> None:
    assert unsupported_in(spec, "spec") == want
