"""How fast running gangs train, in seconds of work per second; 1 is one worker beside its ps, alone on its node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from lab.sim.objects import JobSpec
from lab.sim.speed import REMOTE, training_rate
from policy.cluster.node import Node


@dataclass(frozen=True, slots=True)
class RunningGang:
    """A gang that computes: the node of each of its workers and of each ps."""

    spec: JobSpec
    workers: tuple[str, ...]
    servers: tuple[str, ...]


class Speeds(Protocol):
    """A speed model: how fast gangs train. If it is ``coupled``, a gang's rate depends on other gangs (by a shared link
    or CPU).
    """

    @property
    def coupled(self) -> bool:
        """Whether a change of one gang changes the rates of all gangs; if not, only its own rate changes."""
        ...

    def rates(self, running: Mapping[str, RunningGang], nodes: Mapping[str, Node]) -> Mapping[str, float]:
        """Return the rate at which each of these gangs works, by job UID."""
        ...


@dataclass(frozen=True, slots=True)
class Saturating:
    """The saturating ps-worker model (lab/sim/speed.py); gangs do not affect one another.

    remote: the speed of a worker on another node than its ps, as a share of one beside it.
    """

    remote: float = REMOTE
    coupled: bool = False

    def rates(self, running: Mapping[str, RunningGang], nodes: Mapping[str, Node]) -> Mapping[str, float]:
        """Return each gang's rate, independent of the others."""
        del nodes
        return {
            uid: training_rate(gang.workers, gang.servers, gang.spec.contention, self.remote)
            for uid, gang in running.items()
        }


@dataclass(frozen=True, slots=True)
class SharedCpu:
    """Gangs share each node's CPU (SpeCon): each of n workers on a node gets 1 / (n (1 + gamma (n - 1))) of it.

    A gang's rate is the sum over its workers; 1 is a worker that has a node to itself.
    """

    gamma: float = 0.0
    coupled: bool = True

    def rates(self, running: Mapping[str, RunningGang], nodes: Mapping[str, Node]) -> Mapping[str, float]:
        """Return the rates of all gangs, which depend on one another."""
        del nodes
        crowd = Counter(node for gang in running.values() for node in gang.workers)
        share = {node: 1.0 / (n * (1.0 + self.gamma * (n - 1))) for node, n in crowd.items()}
        return {uid: sum(share[node] for node in gang.workers) for uid, gang in running.items()}


@dataclass(frozen=True, slots=True)
class Linear:
    """Every worker counts in full, whatever node it is on (OASiS reserves enough bandwidth for its ps)."""

    coupled: bool = False

    def rates(self, running: Mapping[str, RunningGang], nodes: Mapping[str, Node]) -> Mapping[str, float]:
        """Return each gang's rate, independent of the others."""
        del nodes
        return {uid: float(len(gang.workers)) for uid, gang in running.items()}
