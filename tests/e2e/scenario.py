"""A scenario of mixed jobs that arrive over a while: what each is, and what an observer must have seen at its end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.controlplane.definitions import COSCHEDULING, VOLCANO
from tests.e2e.jobsets import JOBSET

Json = dict[str, Any]
PER_PS = 2  # workers that one ps serves, as their bandwidths tell
UTILITIES = (1.0, 5.0, 2.0)


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind is known: its API, its list, where its roles stand, its rigid role and its workers' role.

    ``elastic``: its jobs have bounds. ``trains``: they may tell of their training. ``lasts``: they do not end by
    themselves. ``pauses``: they can be suspended. ``remembers``: what a policy remembers stands on their objects.
    """

    api: str
    plural: str
    roles_at: str = ""
    rigid: str = ""
    container: str = "train"
    worker: str = "worker"
    elastic: bool = True
    trains: bool = True
    lasts: bool = False
    pauses: bool = True
    remembers: bool = True


KINDS = {
    "TFJob": Kind("kubeflow.org/v1", "tfjobs", "tfReplicaSpecs", "PS", "tensorflow"),
    "PyTorchJob": Kind("kubeflow.org/v1", "pytorchjobs", "pytorchReplicaSpecs", "Master", "pytorch"),
    "MPIJob": Kind("kubeflow.org/v1", "mpijobs", "mpiReplicaSpecs", "Launcher", "mpi"),
    "Job": Kind("batch/v1", "jobs", elastic=False),
    "StatefulSet": Kind("apps/v1", "statefulsets", lasts=True, pauses=False, remembers=False),
    "Deployment": Kind("apps/v1", "deployments", lasts=True, pauses=False, remembers=False),
    "PodGroup": Kind(COSCHEDULING, "podgroups", elastic=False, trains=False, pauses=False),
    "VolcanoGroup": Kind(VOLCANO, "podgroups", elastic=False, trains=False, pauses=False),
    "JobSet": Kind(JOBSET, "jobsets", rigid="driver-0", worker="workers-0", elastic=False, trains=False),
}
GROUPS = ("PodGroup", "VolcanoGroup")
ORDER = (
    "TFJob", "PyTorchJob", "TFJob", "MPIJob", "Job", "StatefulSet", "Deployment", "PodGroup", "JobSet", "VolcanoGroup",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Arrival:
    """One job: ``least`` to ``most`` workers of ``cores`` each, ``asked`` at first, beside rigid members of one core.

    ``seconds``: how long it runs; one that does not end by itself is deleted so long after it ran whole.
    ``training``: what it tells of its training. ``elastic_ps``: a schedule may give it other ps. ``node``: the only
    one that it may go to.
    """

    name: str
    kind: str
    least: int
    asked: int
    most: int
    cores: int
    seconds: float
    utility: float = 1.0
    impossible: bool = False
    training: str = ""
    elastic_ps: bool = False
    more_roles: tuple[str, ...] = ()
    node: str = ""

    @property
    def rigid(self) -> dict[str, int]:
        """Members beside the workers, by role. Where the ps may change they are too many at first."""
        first = KINDS[self.kind].rigid
        return ({first: 3 if self.elastic_ps else 1} if first else {}) | dict.fromkeys(self.more_roles, 1)

    @property
    def members(self) -> int:
        """Of the gang at its minimum; a schedule leaves one ps at least."""
        return self.least + (1 if self.elastic_ps else sum(self.rigid.values()))

    def list_path(self, namespace: str) -> str:
        """Where the API server has the jobs of its kind."""
        kind = KINDS[self.kind]
        return f"/apis/{kind.api}/namespaces/{namespace}/{kind.plural}"

    def path(self, namespace: str) -> str:
        """Where the API server has it."""
        return f"{self.list_path(namespace)}/{self.name}"


def arrivals(count: int, seed: int, seconds: float) -> Iterator[Arrival]:
    """So many jobs for three nodes of ten cores: more than fit at once, a heavy one among them, an impossible one.

    Every second one tells of its training, if its kind can (as many chunks as workers, each of one OASiS slot of
    ``slot_of(seconds)``), and some of these may be given other ps. Others have a chief and an evaluator.
    """
    chance = random.Random(seed)
    work = f"secondsPerBatch: {slot_of(seconds):g}, workerGigabits: 1, psGigabits: {PER_PS}"
    curve = "utility: {value: 100, steepness: 0.01, target: 30}"
    for n in range(count - 2):
        turn, place = divmod(n, len(ORDER))
        kind = ORDER[place]
        least, spare = chance.randint(1, 3), chance.choice((0, 2, 4)) if KINDS[kind].elastic else 0
        asked = least + spare // 2
        # In the second turn the others tell, and the first, whose ps may change, again.
        trains = KINDS[kind].trains and (place == 0 or (turn + place) % 2 == 0)
        yield Arrival(
            f"job-{n}", kind, least, asked, least + spare, chance.choice((1, 2)), seconds,
            utility=UTILITIES[n % len(UTILITIES)],
            training=f"{{chunks: {asked}, {work}, {curve}}}" if trains else "",
            elastic_ps=place == 0,
            more_roles=("Chief", "Evaluator") if place == 2 else (),
        )  # fmt: skip
        if n == count // 2:
            yield Arrival("heavy", "TFJob", 8, 8, 10, 2, seconds, utility=50.0)
    yield Arrival("impossible", "TFJob", 40, 40, 40, 2, seconds, impossible=True)


def slot_of(seconds: float) -> float:
    """OASiS's slots are twice as long as a job runs."""
    return 2 * seconds
