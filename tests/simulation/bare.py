"""Pods without a job object: single pods, and pods that a PodGroup makes a gang.

This module plays the pods' user, who creates the pods, ends them when they have trained, deletes those that cannot go
on, and recreates some under the same names. It also plays the controller of some groups, which recreates pods that fail
or are deleted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from extender.kube.api import Ref
from extender.kube.jobkinds import PLAN
from extender.kube.jobobjects import identity
from extender.kube.podgroupkinds import COSCHEDULING
from lab.embedded.apirules import StatusError
from lab.sim.objects import PodObject, WorldRefusal
from lab.sim.pods.world import SimulatedWorld
from lab.sim.traces import pod_requests
from lab.virtual.clocks import loop_time
from policy.cluster.pod import Phase
from policy.cluster.reasons import Reason
from policy.cluster.resources import Resources
from tests.simulation.past import STALE, any_goes
from tests.simulation.witness import PARTIAL_CALM

if TYPE_CHECKING:
    from tests.simulation.faults import DrawnFault
    from tests.simulation.run import Simulation

NAMESPACE: Final = "bare"
MOST: Final = 4  # At most this many single pods and groups exist at a time.
((GROUP_LABEL,),) = [[path[-1]] for path in COSCHEDULING.named_at]


@dataclass(slots=True)
class Bare:
    """A single pod, or the pods of one PodGroup.

    ``least`` is the number of members that must be bound together; 0 for a single pod. ``asks`` is what each pod
    requests, ``seconds`` how long the training takes. If ``owned``, a controller recreates pods that fail or are
    deleted.
    """

    name: str
    pods: tuple[str, ...]
    least: int
    asks: Resources
    seconds: float
    owned: bool
    whole_since: float | None = None
    partial_since: float | None = None
    # The UIDs of the pods, from the time on at which the gang may be bound: all needed pods have asked to be bound, or
    # another scheduler has bound one of them.
    begun: frozenset[str] = frozenset()

    @property
    def ref(self) -> Ref:
        """Return the reference of the PodGroup."""
        return Ref(COSCHEDULING.resource, NAMESPACE, self.name)


class BarePods:
    """All single pods and pod groups of one run."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._world = sim.world
        self._there: list[Bare] = []
        self._named: dict[str, str] = {}  # pod's UID -> the name of its `Bare`
        self._made = 0
        # pod's UID -> the last time at which the API showed the pod with a node
        self.bound_until: dict[str, float] = {}

    # -- The methods below are what the user of these pods does. -----------------------------------

    def create_lone(self, fault: DrawnFault) -> str:
        """Create a single pod, which is a gang of one; return what was created, in words."""
        return self._create(fault, 1, 0)

    def create_group(self, fault: DrawnFault) -> str:
        """Create a PodGroup and its pods, sometimes more pods than its minimum; return what was created, in words."""
        least = fault.draw("least", lambda chance: chance.randint(2, 4))
        return self._create(fault, fault.draw("pods", lambda chance: least + chance.choice((0, 0, 1))), least)

    def end(self, fault: DrawnFault) -> str:
        """Delete one single pod or group, in any state; return its name, or "" if there is none."""
        bare = self._pick(fault)
        if bare is not None:
            self._delete(bare)
        return bare.name if bare is not None else ""

    def make_anew(self, fault: DrawnFault) -> str:
        """Delete one single pod or group, and recreate it at once under the same names; return its name, or "" if there
        is none.

        A pod that is still terminating keeps its name until it is gone.
        """
        bare = self._pick(fault)
        if bare is None:
            return ""
        self._delete(bare)
        self._there.append(replace(bare, whole_since=None, partial_since=None, begun=frozenset()))
        self._make(fault, self._there[-1])
        return bare.name

    def _pick(self, fault: DrawnFault) -> Bare | None:
        return fault.pick("group", self._there, lambda bare: bare.name)

    def _create(self, fault: DrawnFault, count: int, least: int) -> str:
        if len(self._there) >= MOST:
            return ""
        self._made += 1
        name = fault.draw("name", lambda _: f"{'group' if least else 'lone'}-{self._made}")
        asks = pod_requests(fault.choice("cores", (1, 1, 2)), 1)
        names = tuple(f"{name}-{i}" for i in range(count))
        owned = fault.draw("owned", lambda _: least > 0 and self._made % 4 > 0)
        bare = Bare(name, names, least, asks, fault.uniform("trains", 5.0, 30.0), owned)
        self._there.append(bare)
        self._make(fault, bare)
        return f"{name} of {count}, at least {least}"

    def _make(self, fault: DrawnFault, bare: Bare) -> None:
        """Create the pods, and the PodGroup before or after them."""
        spec = {"metadata": {"name": bare.name}, "spec": {"minMember": bare.least}}
        late = fault.draw("group last", lambda chance: chance.random() < 0.3)
        if bare.least and not late:
            self._sim.cluster.server.create(COSCHEDULING.resource, NAMESPACE, spec)
        self._make_pods(bare)
        if bare.least and late:
            self._sim.cluster.server.create(COSCHEDULING.resource, NAMESPACE, spec)

    def _make_pods(self, bare: Bare) -> None:
        """Create the pods of the group, except those whose names existing pods have."""
        labels, controller = {GROUP_LABEL: bare.name} if bare.least else {}, bare.name if bare.owned else ""
        for name in bare.pods:
            pod = PodObject("", NAMESPACE, name, bare.asks, labels=labels, controller=controller)
            self._write(lambda world, pod=pod: world.create_pod(pod))  # type: ignore[misc]
        self._named |= {pod.uid: bare.name for pod in self._pods(bare)}

    def _delete(self, bare: Bare) -> None:
        self._there.remove(bare)
        if bare.least:
            self._sim.cluster.server.delete(bare.ref)
        for pod in self._pods(bare):
            if pod.deleted is None:
                self._write(lambda world, pod=pod: world.delete_pod(pod.namespace, pod.name))  # type: ignore[misc]

    def _write(self, write: Callable[[SimulatedWorld], WorldRefusal | None]) -> None:
        with contextlib.suppress(StatusError):  # The API server refuses a pod whose name is still taken.
            self._sim.cluster.bridge.do(write)

    def _pods(self, bare: Bare) -> list[PodObject]:
        found = (self._world.store.pod_named(NAMESPACE, name) for name in bare.pods)
        return [pod for pod in found if pod is not None]

    # -- The methods below let pods end or be replaced as time passes. -------------------------------

    def act(self, *, calm: bool) -> None:
        """Let pods that have trained long enough succeed. In the calm after the last fault, also delete groups that can
        never run.
        """
        for bare in list(self._there):
            pods = [pod for pod in self._pods(bare) if pod.deleted is None]
            working = [pod for pod in pods if pod.phase is Phase.RUNNING]
            whole = len(working) >= max(1, bare.least)
            bare.whole_since = (bare.whole_since or loop_time()) if whole else None
            if bare.owned:
                self._check_partial(bare, pods)
            if bare.whole_since is not None and loop_time() - bare.whole_since > bare.seconds:
                for pod in pods:
                    self._end(pod)
            elif calm and not self._has_trained(bare) and (self._lacks_pods(bare, pods) or self._refused(bare)):
                self._delete(bare)
            elif bare.owned:
                self._replace(bare)

    def _lacks_pods(self, bare: Bare, pods: list[PodObject]) -> bool:
        """Tell whether pods of the group are missing that no controller recreates."""
        return not bare.owned and len(pods) < len(bare.pods)

    def _replace(self, bare: Bare) -> None:
        """Play the controller: delete failed pods and recreate missing ones, until the training is over."""
        pods = self._pods(bare)
        if bare.begun.isdisjoint(pod.uid for pod in pods):
            bare.begun = frozenset()
        if any(pod.phase is Phase.SUCCEEDED for pod in pods):
            return
        for pod in pods:
            if pod.phase is Phase.FAILED and pod.deleted is None:
                self._write(lambda world, pod=pod: world.delete_pod(pod.namespace, pod.name))  # type: ignore[misc]
        self._make_pods(bare)

    def _end(self, pod: PodObject) -> None:
        """Let a running pod succeed; delete one that has not started, because it is not needed any more."""
        if pod.phase is not Phase.RUNNING:
            self._write(lambda world: world.delete_pod(pod.namespace, pod.name))
            return

        def write(world: SimulatedWorld) -> None:
            world._core.write_pod(replace(pod, phase=Phase.SUCCEEDED, ended=world.now))

        self._sim.cluster.bridge.do(write)

    def _has_trained(self, bare: Bare) -> bool:
        """Tell whether all pods of the group have succeeded; they stay until they are deleted."""
        pods = self._pods(bare)
        return len(pods) >= max(1, bare.least) and all(pod.phase is Phase.SUCCEEDED for pod in pods)

    def _refused(self, bare: Bare) -> bool:
        """Tell whether a pod of the group failed for good, or the policy has rejected the gang."""
        if not bare.owned and any(pod.phase is Phase.FAILED for pod in self._pods(bare)):
            return True
        extender = self._sim.extender
        verdicts = extender.live.ledger.snapshot.verdicts if extender.up else {}
        found = (verdicts.get(uid) for uid in self._jobs(bare))
        return any(verdict is not None and verdict.reason is Reason.REJECTED for verdict in found)

    def _jobs(self, bare: Bare) -> Iterator[str]:
        """Yield the UIDs of jobs under which the ledger may know the pods: the group's gang, or gangs of one pod."""
        group = self._sim.cluster.server.store.get(bare.ref.resource, NAMESPACE, bare.name) if bare.least else None
        if group is not None:
            yield identity(NAMESPACE, group["metadata"]["uid"])
        yield from (identity(NAMESPACE, pod.uid) for pod in self._pods(bare))

    def waiting(self) -> list[str]:
        """Return a text for each single pod or group that has not ended, with the nodes of its pods."""
        return [
            f"{bare.name}: " + ", ".join(f"{pod.name}@{pod.node or '-'} {pod.phase.value}" for pod in self._pods(bare))
            for bare in self._there
            if not all(pod.phase is Phase.SUCCEEDED for pod in self._pods(bare))
        ]

    # -- The methods below answer the witness's questions. -------------------------------------------

    def _check_partial(self, bare: Bare, pods: list[PodObject]) -> None:
        """Check S1 in the calm: no group with a controller holds room for long while members of its minimum do not
        run.
        """
        witness, now, nodes = self._sim.witness, loop_time(), self._world.store.nodes
        holding = sum(1 for pod in pods if pod.holds_room and pod.node in nodes)
        partial = 0 < holding < bare.least and not any(pod.phase is Phase.SUCCEEDED for pod in pods)
        began = now if any_goes(pods, nodes) else bare.partial_since or now
        bare.partial_since = began if partial else None
        if bare.partial_since is None or witness.calm_since is None:
            return
        if now - max(bare.partial_since, witness.calm_since) > PARTIAL_CALM:
            held = ", ".join(f"{pod.name}@{pod.node or '-'}" for pod in pods)
            witness.violated("S1", f"group {bare.name} is partly bound for {PARTIAL_CALM:g} s: {held}")

    def whole_since(self, pod: PodObject) -> float | None:
        """Return the time since which the minimum of the pod's group has been running, or None if it is not running."""
        name = pod.labels.get(GROUP_LABEL)
        return next((bare.whole_since for bare in self._there if bare.name == name), None)

    def group_of(self, pod: PodObject) -> str:
        """Return the name of the pod's group, or "" if it belongs to none."""
        return pod.labels.get(GROUP_LABEL, "")

    def too_few(self, pod: PodObject, asked: set[str]) -> str:
        """Return why no pod of the pod's group may be bound yet, or "" if one may; ``asked`` has the UIDs of pods with
        a bind call.
        """
        name = pod.labels.get(GROUP_LABEL)
        bare = next((bare for bare in self._there if bare.name == name), None)
        if bare is None:
            return ""
        pods = self._pods(bare)
        ready = [one.name for one in pods if one.uid in asked or one.node]
        ready += [uid for uid in sorted((asked | self._known_as_bound()) - self._world.store.pods.keys())
                  if self._named.get(uid) == name]  # fmt: skip
        by_others = any(one.node and PLAN not in one.annotations for one in pods)
        if by_others or len(ready) >= bare.least:
            bare.begun |= {pod.uid, *(one.uid for one in pods)}
        return "" if bare.begun else f"only {ready} of {name} ask to be bound"

    def _known_as_bound(self) -> set[str]:
        """Return the UIDs of pods that Kohort's processes may take for bound because of outdated watches.

        Some of these pods may be gone.
        """
        now = loop_time()
        return {uid for uid, until in self.bound_until.items() if now - until <= STALE}

    def groups(self) -> set[str]:
        """Return the gangs of all groups that have pods, by their UIDs in the ledger."""
        named = {pod.labels.get(GROUP_LABEL) for pod in self._world.store.pods.values()}
        return {
            identity(NAMESPACE, item["metadata"]["uid"])
            for item in self._sim.cluster.server.store.all(COSCHEDULING.resource)
            if item["metadata"]["name"] in named
        }
