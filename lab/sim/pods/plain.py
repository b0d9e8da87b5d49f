"""The default kube-scheduler without Kohort, pod by pod; the baseline policy ``fifo-pod`` is checked against it.

Each pod goes alone to the node with the best score: LeastAllocated plus spreading of the job's pods, in whole points as
in kube-scheduler, ties broken by the seed. Waiting pods are retried whenever room is freed.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from lab.sim.engine import Engine
from lab.sim.objects import PodObject
from lab.sim.pods.simulatedscheduler import KubeScheduler, NodeChoice
from lab.sim.pods.world import SimulatedWorld
from policy.systems.baselines import Retry

POINTS = 100


class PlainChooser:
    """Chooses the node with the best score, and binds without waiting for a gang."""

    def __init__(
        self, world: SimulatedWorld, engine: Engine[Callable[[], object]], seed: int, bind_seconds: float
    ) -> None:
        self._world, self._engine, self._bind_seconds = world, engine, bind_seconds
        self._draw = random.Random(seed)
        self.scheduler: KubeScheduler | None = None

    def order(self, retry: Retry) -> Callable[[list[PodObject]], list[PodObject]]:
        """Return the function that orders waiting pods when room is freed."""
        return (lambda pods: self._draw.sample(pods, len(pods))) if retry is Retry.RANDOM else (lambda pods: pods)

    def choose(self, pod: PodObject, feasible: list[str]) -> NodeChoice:
        """Return one of the nodes with the best score; the seed decides between equal ones."""
        nodes = [self._world.store.nodes[name] for name in feasible]
        free = self.scheduler.free(nodes) if self.scheduler is not None else {}
        beside = [sibling.node for sibling in self._world.store.pods_of(pod.owner)]
        most = max((beside.count(name) for name in feasible), default=0)
        scores: dict[str, int] = {}
        for node in nodes:
            left = free[node.name] - pod.requests
            shares = [left[name] / node.allocatable[name] for name in ("cpu", "memory")]
            spread = 1.0 - beside.count(node.name) / most if most else 1.0
            scores[node.name] = int(POINTS * sum(shares) / len(shares)) + int(POINTS * spread)
        best = max(scores.values())
        return NodeChoice(self._draw.choice([name for name in feasible if scores[name] == best]))

    def bind(self, pod: PodObject, node: str) -> None:
        """Bind without asking an extender."""
        self._engine.schedule(self._world.now + self._bind_seconds, lambda: self._make_binding(pod, node))

    def _make_binding(self, pod: PodObject, node: str) -> None:
        refusal = self._world.bind(pod.namespace, pod.name, node, uid=pod.uid)
        if self.scheduler is not None and refusal is None:
            self.scheduler.bound(pod.uid)
        elif self.scheduler is not None and refusal is not None:
            self.scheduler.refused(pod.uid, refusal.message)
