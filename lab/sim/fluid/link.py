"""DRAGON's speeds: its measured table (DRAGON, Figure 2), and remote workers that share the nodes' links.

A worker beside its ps takes n B / thr(n) for a mini-batch of B images. A worker on another node also fetches the
parameters and sends its gradients, which takes P / bandwidth each way. A link carries at most its capacity per
direction; if its transfers together need more than that, they share it (a fixed point over their duty cycles). Training
is asynchronous, so a job's rate is the sum over its workers. Figure 2 ends at four workers; beyond
that, the saturating curve fitted to it continues. The parameter sizes and the batch of 64 are this project's, because
the paper gives none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lab.sim.fluid.speedmodels import RunningGang
from policy.cluster.node import Node

GIGABIT_ETHERNET = 117e6  # payload in bytes per second in each direction of a 1 Gb/s link
SAME = 1e-9
ITERATIONS = 1000

Link = tuple[str, str]  # a link in one direction: (node, direction)


@dataclass(frozen=True, slots=True)
class Trained:
    """A measured model: images per second with 1, 2, ... workers beside their ps, and bytes of parameters.

    ``contention`` is ``a`` of the saturating curve n / (1 + a (n - 1)) that extends the table.
    """

    images: tuple[float, ...]
    parameters: float
    contention: float

    def throughput(self, workers: int) -> float:
        """Return how many images per second ``workers`` workers process together, all beside their ps."""
        measured = len(self.images)
        if workers <= measured:
            return self.images[workers - 1]
        return self.images[-1] * self._curve(workers) / self._curve(measured)

    def _curve(self, workers: int) -> float:
        return workers / (1.0 + self.contention * (workers - 1))


DRAGON: Mapping[str, Trained] = {
    "AlexNet": Trained((38.09, 59.10, 77.76, 97.69), 244e6, 0.205),
    "InceptionV3": Trained((92.12, 154.14, 192.01, 280.79), 95e6, 0.134),
    "ResNet-50": Trained((115.06, 176.65, 277.37, 346.51), 102e6, 0.120),
}


@dataclass(frozen=True, slots=True)
class SharedLinks:
    """A speed model: rates by the measured table and by traffic over links; a job's ``model`` names its row.

    ``batch`` is the images in one worker's step, ``volume`` a factor on the traffic, and ``bandwidth`` the bytes per
    second of a node's link in each direction.
    """

    models: Mapping[str, Trained] = field(default_factory=lambda: DRAGON)
    batch: int = 64
    volume: float = 1.0
    bandwidth: float = GIGABIT_ETHERNET
    coupled: bool = True

    def work_seconds(self, model: str, steps: int) -> float:
        """Return a job's work: the seconds that one worker beside its ps needs for ``steps`` steps."""
        return steps * self.batch / self._model(model).throughput(1)

    def rates(self, running: Mapping[str, RunningGang], nodes: Mapping[str, Node]) -> Mapping[str, float]:
        """Return the rates of all gangs together. Raises ValueError for a model that is not in the table."""
        del nodes  # ``nodes`` is not used, because every node has the same link.
        groups = [group for uid, gang in running.items() for group in self._groups(uid, gang)]
        self._share(groups)
        rates = dict.fromkeys(running, 0.0)
        for group in groups:
            rates[group.uid] += group.count / group.step * group.alone
        return rates

    def _groups(self, uid: str, gang: RunningGang) -> Iterator[_Group]:
        """Yield the gang's workers grouped by node; workers on the same node behave alike."""
        model = self._model(gang.spec.model)
        workers = len(gang.workers)
        computing = workers * self.batch / model.throughput(workers)
        alone = self.batch / model.throughput(1)
        part = model.parameters * self.volume / max(1, len(gang.servers))
        for node, count in sorted(Counter(gang.workers).items()):
            remote = Counter(server for server in gang.servers if server != node)
            transfers = [
                Transfer(link, servers * part)
                for server, servers in sorted(remote.items())
                for link in (((server, "out"), (node, "in")), ((node, "out"), (server, "in")))
            ]
            yield _Group(uid, count, computing, alone, transfers)

    def _share(self, groups: list[_Group]) -> None:
        """Lengthen each worker's step until all steps agree with the share of the links' capacity that each transfer
        gets.

        The loop starts from the shortest steps. Duty cycles and times then only grow, so it ends at the least fixed
        point.
        """
        for _ in range(ITERATIONS):
            busy: dict[Link, float] = {}
            for group in groups:
                for transfer in group.transfers:
                    for link in transfer.links:
                        busy[link] = busy.get(link, 0.0) + group.count * transfer.seconds / group.step
            moved = 0.0
            for group in groups:
                for transfer in group.transfers:
                    shared = max(1.0, *(busy[link] for link in transfer.links))
                    seconds = transfer.size * shared / self.bandwidth
                    moved = max(moved, abs(seconds - transfer.seconds) / seconds)
                    transfer.seconds = seconds
                group.step = group.computing + sum(transfer.seconds for transfer in group.transfers)
            if moved < SAME:
                return

    def _model(self, name: str) -> Trained:
        found = self.models.get(name)
        if found is None:
            raise ValueError(f"model is {name!r}, must be one of {', '.join(sorted(self.models))}")
        return found


class Transfer:
    """The bytes that one worker moves in each step, over the sender's and the receiver's link."""

    def __init__(self, links: tuple[Link, Link], size: float) -> None:
        self.links, self.size, self.seconds = links, size, 0.0


class _Group:
    """The workers of one gang on one node.

    ``count``: how many workers. ``computing``: seconds of a step in which a worker computes. ``alone``: seconds of a
    step of a single worker beside its ps. ``step``: seconds of a whole step, with transfers.
    """

    def __init__(self, uid: str, count: int, computing: float, alone: float, transfers: list[Transfer]) -> None:
        self.uid, self.count, self.computing, self.alone = uid, count, computing, alone
        self.transfers = transfers
        self.step = computing
