"""A scenario of jobs of many kinds that arrive over time, described without reference to a cluster."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.controlplane.definitions import COSCHEDULING, VOLCANO
from tests.e2e.jobsets import JOBSET

Json = dict[str, Any]
PER_PS = 2  # A ps has the bandwidth of two workers, so it serves two.
UTILITIES = (1.0, 5.0, 2.0)


@dataclass(frozen=True, slots=True)
class Kind:
    """A job kind: its API and plural, the field of the spec with its roles, its rigid role, and its workers' role.

    ``elastic``: jobs of the kind have bounds. ``trains``: they may describe their training. ``lasts``: they do not end
    by themselves. ``pauses``: they can be suspended. ``remembers``: the policy stores its memory on their objects.
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
    """One job of the scenario: ``least`` to ``most`` workers of ``cores`` each, and rigid members of one core.

    Its user asks for ``asked`` workers. The job runs for ``seconds``; if its kind does not end by itself, users delete
    it that long after it first ran whole. ``training`` describes its training. ``elastic_ps``: a schedule of OASiS may
    change its number of ps. ``node`` is the only node that its pods may use; "" allows all.
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
        """Return the number of members of each rigid role; a job whose ps may change asks for three ps at first."""
        first = KINDS[self.kind].rigid
        return ({first: 3 if self.elastic_ps else 1} if first else {}) | dict.fromkeys(self.more_roles, 1)

    @property
    def members(self) -> int:
        """Return the number of members of the gang's minimum; where a schedule changes the ps, one ps counts."""
        return self.least + (1 if self.elastic_ps else sum(self.rigid.values()))

    def list_path(self, namespace: str) -> str:
        """Return the path of the jobs of its kind."""
        kind = KINDS[self.kind]
        return f"/apis/{kind.api}/namespaces/{namespace}/{kind.plural}"

    def path(self, namespace: str) -> str:
        """Return the path of the job."""
        return f"{self.list_path(namespace)}/{self.name}"


def arrivals(count: int, seed: int, seconds: float) -> Iterator[Arrival]:
    """Yield ``count`` jobs for three nodes of ten cores: more than fit at once, with one heavy and one too large job.

    Every second job describes its training, if its kind can: as many chunks as workers, and each chunk takes one OASiS
    slot of ``slot_of(seconds)``. A schedule may change the ps of some of these jobs. Some other jobs have a chief and
    an evaluator.
    """
    chance = random.Random(seed)
    work = f"secondsPerBatch: {slot_of(seconds):g}, workerGigabits: 1, psGigabits: {PER_PS}"
    curve = "utility: {value: 100, steepness: 0.01, target: 30}"
    for n in range(count - 2):
        turn, place = divmod(n, len(ORDER))
        kind = ORDER[place]
        least, spare = chance.randint(1, 3), chance.choice((0, 2, 4)) if KINDS[kind].elastic else 0
        asked = least + spare // 2
        # Kinds take turns in describing their training, except the first job of each round, which always does.
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
    """Return the length of OASiS's slots, which is twice as long as a job runs."""
    return 2 * seconds
