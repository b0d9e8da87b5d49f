"""Kohort's verdict on a pair: whether it would bind the pod to the node without asking kube-scheduler's plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from extender.kube import pods, podspec, translate, unchecked
from extender.kube.api import NODES, PODS
from extender.kube.jobobjects import identity
from policy.cluster import pod as pod_facts
from policy.cluster.constraints import Constraints, Requirement
from policy.cluster.events import Synced
from policy.cluster.node import Node
from policy.cluster.resources import Resources
from policy.cluster.snapshot import Rules, Snapshot
from policy.placement import eligible, fit
from policy.placement.eligible import in_the_way, sends_all
from policy.placement.plugins import FIELDS
from policy.step import step
from policy.systems.kod2 import Kod2
from tests.eligibility.draw import SCHEDULER, Json
from tests.simulation.mutants import put
from tests.simulation.policymutants import Patch

NOW: Final = 2_000_000_000.0


@dataclass(frozen=True, slots=True)
class Seen:
    """The objects of a pair as the API server returned them, before kube-scheduler was started."""

    nodes: tuple[Json, ...]
    others: tuple[Json, ...]
    pod: Json


def refusal(seen: Seen) -> str:
    """Return why Kohort would not bind the pod by itself; empty if it would.

    The snapshot is made of the objects of this pair alone. The pod is a gang of one member, which is looked at as a
    member of a larger gang is whose bind call has not come yet.
    """
    translator = translate.Translator(SCHEDULER)
    objects = [(NODES, node) for node in seen.nodes] + [(PODS, pod) for pod in (*seen.others, seen.pod)]
    events = [event for kind, item in objects for event in translator.events(kind, {"type": "ADDED", "object": item})]
    snapshot, _ = step(Snapshot(rules=Rules(commit_first=True)), [*events, Synced()], Kod2(), NOW)
    meta = seen.pod["metadata"]
    if sends_all(snapshot, meta["uid"]):
        return ""
    job_uid = identity(meta["namespace"], meta["uid"])
    verdict = snapshot.verdicts.get(job_uid)
    if verdict is not None and not snapshot.gang(job_uid).nodes:
        return f"no plan: {verdict.reason.value}"
    return in_the_way(snapshot, snapshot.gang(job_uid)) or "no plan"


# -- rules that are broken on purpose --------------------------------------------------------------


@contextmanager
def broken(patches: Iterable[Patch]) -> Iterator[None]:
    """Apply these patches for as long as the context lasts."""
    podspec._one_of.cache_clear()
    with ExitStack() as stack:
        for owner, name, value in patches:
            stack.enter_context(put(owner, name, value))
        yield


def _spec_without(*keys: str) -> list[Patch]:
    """Return a patch with which a pod's requests are read as if these keys were missing in its spec."""

    def requests_of(spec: Json, field: str, status: Json | None = None) -> Resources:
        return podspec.requests_of({key: value for key, value in spec.items() if key not in keys}, field, status)

    return [(pods, "requests_of", requests_of)]


def _pods_changed(**changes: Any) -> list[Patch]:
    """Return a patch with which every pod is read with these fields."""
    return [(translate, "read_pod", lambda *given: replace(pods.read_pod(*given), **changes))]


def _field_ignored(name: str) -> list[Patch]:
    """Return patches with which this field of the table of plugins is found in no pod."""

    def unchecked_in(spec: Json, requests: Resources | None) -> tuple[str, ...]:
        return tuple(found for found in unchecked.unchecked_in(spec, requests) if found != name)

    def unsupported_in(spec: Json, field: str) -> tuple[str, ...]:
        return tuple(found for found in podspec.unsupported_in(spec, field) if found != name)

    return [(pods, "unchecked_in", unchecked_in), (pods, "unsupported_in", unsupported_in)]


def _without_operator(wrong: str, instead: bool) -> list[Patch]:
    """Return a patch with which an expression with this operator is always, or never, true."""

    def matches(value: str | None, need: Requirement) -> bool:
        return instead if need.operator == wrong else _MATCHES(value, need)

    return [(fit, "_matches", matches)]


def _requests_without(name: str) -> list[Patch]:
    """Return a patch with which pods are read as if they asked for nothing of this resource."""

    def requests_of(spec: Json, field: str, status: Json | None = None) -> Resources:
        found = podspec.requests_of(spec, field, status).amounts
        return Resources({key: value for key, value in found.items() if key != name})

    return [(pods, "requests_of", requests_of)]


def _node_changed(**changes: Any) -> list[Patch]:
    """Return a patch with which every node is read with these fields."""
    return [(translate, "Node", lambda **given: Node(**(given | changes)))]


def _accepts_by(change: Callable[[Constraints], Constraints]) -> list[Patch]:
    """Return a patch with which pods are read with other constraints on nodes."""
    return [(pods, "places_of", lambda spec: change(podspec.places_of(spec)))]


_MATCHES = fit._matches


def _number(text: str) -> int | None:
    """Return the number that Python reads in the text; None if it reads none."""
    with suppress(ValueError):
        return int(text)
    return None


UNDRAWN: Final = frozenset(
    {
        # The API server of 1.37 drops or refuses these while their features are off.
        "bindMountOptions", "hostUsers", "schedulingGroup",
        # The API server accepts no requests that Kohort cannot read.
        "requests that cannot be read",
        # Kohort's placement itself finds no node for these, because it counts them as resources.
        "a device class", "hostPort",
    }
)  # fmt: skip
"""Fields without which no drawn pair is bound wrongly."""
BROKEN: Final[Mapping[str, list[Patch]]] = {
    "NoExecute taints are ignored": [(fit, "BARRING", ("NoSchedule",))],
    "NoSchedule taints are ignored": [(fit, "BARRING", ("NoExecute",))],
    "a toleration's effect is ignored": _accepts_by(
        lambda found: replace(found, tolerations=tuple(one._replace(effect="") for one in found.tolerations))
    ),
    "a toleration's value is ignored": _accepts_by(
        lambda found: replace(
            found, tolerations=tuple(one._replace(operator="Exists") if one.key else one for one in found.tolerations)
        )
    ),
    "a cordoned node is usable": _node_changed(unschedulable=False),
    "the node selector is ignored": _accepts_by(lambda found: replace(found, node_selector=())),
    "the required node affinity is ignored": _accepts_by(lambda found: replace(found, terms=())),
    **{
        f"the operator {name} matches always": _without_operator(name, True)
        for name in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
    },
    "a number may be written as in Python": [(fit, "_number", _number)],
    "the number of pods is ignored": _requests_without("pods"),
    "cpu is ignored": _requests_without("cpu"),
    "memory is ignored": _requests_without("memory"),
    "ephemeral storage is ignored": _requests_without("ephemeral-storage"),
    "devices are ignored": _requests_without("example.com/gpu"),
    "init containers are ignored": _spec_without("initContainers"),
    "overhead is ignored": _spec_without("overhead"),
    "the resources of the pod as a whole are ignored": _spec_without("resources"),
    "nominated pods hold no room": _pods_changed(nominated=""),
    "a terminating pod holds no room": [
        (pod_facts.Pod, "holds_room", property(lambda pod: bool(pod.node) and not pod.ended and not pod.terminating))
    ],
    "a pod holds what it asks for during a resize": [
        (pods, "requests_of", lambda spec, field, status=None: podspec.requests_of(spec, field))
    ],
    "the anti-affinity of other pods is ignored": [(eligible, "_repelled", lambda snapshot, pod: "")],
    "a namespaceSelector of an anti-affinity is ignored": [(eligible, "EVERY_NAMESPACE", "no namespace")],
    "Kohort's gate is ignored": _pods_changed(gated=False),
    **{f"{name} is ignored": _field_ignored(name) for name in sorted(FIELDS - UNDRAWN)},
}
"""Kohort's verdict with one rule broken, by what is wrong; each must be caught by kube-scheduler's verdict."""
