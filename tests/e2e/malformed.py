"""More than a hundred TFJobs and pods with one fault each, and the texts that Kohort must show for each."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.e2e.tfjobs import TFJob

Json = dict[str, Any]
Change = Callable[[Json], object]
MIN, MAX, UTILITY = (f"kohort.dev/{name}" for name in ("min-workers", "max-workers", "utility"))
COUNTS = "a whole number from 0 to 10000"
WORKER = "spec.tfReplicaSpecs.Worker"
CONTAINER = f"{WORKER}.template.spec.containers[0].resources"
AVAILABLE = "spec.runPolicy.schedulingPolicy.minAvailable"

NOT_COUNTS = (
    "two", "-1", "1.5", "\u0663", "\u00b2", "\u00bd", "\uff12", "1e1", "0x2", " 2", "2 ", "2\n", "", "+2", "1_0",
    "10001", "1000000000", "9" * 30, "nan", "true", "null", "[2]", "2,0", "1/2", "-", "1;2",
)  # fmt: skip
NOT_UTILITIES = (
    "0", "-1", "-0", "nan", "inf", "-inf", "1e7", "1e999", "", "heavy", "1,5", "0x1", "true", "\u0663", "1_0",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BadJob:
    """A TFJob with one fault; ``told`` are the texts that Kohort's explanation must contain, in this order.

    ``server``: the API server itself refuses the job. ``heavy``: the operator must not see the job, because it would
    create pods without end, fail to parse the job, or take the job for finished at once.
    """

    name: str
    change: Change
    told: tuple[str, ...] = ()
    reason: str = "JobInvalid"
    server: bool = False
    heavy: bool = False
    ps: int = 0

    def manifest(self, namespace: str) -> Json:
        job = copy.deepcopy(TFJob(namespace, self.name, workers=1, ps=self.ps).manifest())
        self.change(job)
        return job


def put(*path: str, value: object) -> Change:
    """Return a change that sets one field, given as its path from the object's root."""

    def change(job: Json) -> None:
        at: Any = job
        for key in path[:-1]:
            at = at[int(key)] if key.isdigit() else at.setdefault(key, {})
        at[path[-1]] = value

    return change


def both(*changes: Change) -> Change:
    return lambda job: [change(job) for change in changes]


def note(name: str, value: str) -> Change:
    return put("metadata", "annotations", name, value=value)


def worker(*path: str, value: object) -> Change:
    return put("spec", "tfReplicaSpecs", "Worker", *path, value=value)


def resources(kind: str, name: str, value: object) -> Change:
    return worker("template", "spec", "containers", "0", "resources", kind, name, value=value)


def shown(value: object) -> str:
    """Return the value as Kohort quotes it: a text in quotes unless it is a number; a very long one is cut."""
    return str(value) if value == "10001" else repr(value)[:20]


def bad_jobs() -> list[BadJob]:
    return [
        *_annotations(), *_utilities(), *_available(), *_structure(), *_quantities(),
        *_refused_by_the_server(),
    ]  # fmt: skip


def _annotations() -> Iterator[BadJob]:
    for n, value in enumerate(NOT_COUNTS):
        for name, short in ((MIN, "min"), (MAX, "max")):
            yield BadJob(f"{short}-{n}", note(name, value), (name, shown(value), COUNTS))
    for n, value in enumerate(("two", "-1", "1.5", "\u0663", "", "9" * 30)):
        for name, short in ((MIN, "min"), (MAX, "max")):
            inner = worker("template", "metadata", "annotations", name, value=value)
            yield BadJob(f"template-{short}-{n}", inner, (name, shown(value), COUNTS))
    yield BadJob("min-above-max", both(note(MIN, "4"), note(MAX, "3")), (MAX, "3", "4 or more", MIN))
    yield BadJob("max-of-0", note(MAX, "0"), (MAX, "0", "1 or more"))
    yield BadJob("min-of-0", both(note(MIN, "0"), note(MAX, "3")), (MIN, "0", "1 or more"))


def _utilities() -> Iterator[BadJob]:
    for n, value in enumerate(NOT_UTILITIES):
        yield BadJob(f"utility-{n}", note(UTILITY, value), (UTILITY, shown(value), "a number above 0"))


def _available() -> Iterator[BadJob]:
    for n, value in enumerate((0, 1, 4, -1, 2**31 - 1)):
        change = both(
            put("spec", "runPolicy", "schedulingPolicy", "minAvailable", value=value), worker("replicas", value=2)
        )
        told = (AVAILABLE, shown(value), "a whole number from 0" if value < 0 or value > 10_000 else "2 to 3")
        yield BadJob(f"available-{n}", change, told, ps=1)


def _structure() -> Iterator[BadJob]:
    other = f"{WORKER}.template.spec.schedulerName"
    for n, value in enumerate(("default-scheduler", "kohort2", "Kohort")):
        yield BadJob(
            f"scheduler-{n}", worker("template", "spec", "schedulerName", value=value),
            (other, shown(value), "kohort,"), ps=1,
        )  # fmt: skip
    yield BadJob(
        "scheduler-of-ps", put("spec", "tfReplicaSpecs", "PS", "template", "spec", "schedulerName", value="other"),
        ("spec.tfReplicaSpecs.PS.template.spec.schedulerName", "'other'", "kohort,"), ps=1,
    )  # fmt: skip
    yield BadJob("unknown-role", _rename("Worker", "Helper"), ("spec.tfReplicaSpecs.Helper", "Worker", "Chief"))
    yield BadJob("lower-case-role", _rename("Worker", "worker"), ("spec.tfReplicaSpecs.worker", "Worker", "Chief"))
    yield BadJob("no-members", worker("replicas", value=0), ("spec.tfReplicaSpecs", "at least one replica"),
                 heavy=True)  # fmt: skip
    yield BadJob("no-workers", worker("replicas", value=0), (f"{WORKER}.replicas", "0", "1 or more"), ps=1,
                 heavy=True)  # fmt: skip
    yield BadJob("minus-workers", worker("replicas", value=-1), (f"{WORKER}.replicas", "-1", COUNTS))
    for n, many in enumerate((10_001, 10**9, 2**31 - 1)):
        yield BadJob(f"workers-{n}", worker("replicas", value=many), (f"{WORKER}.replicas", str(many), COUNTS),
                     heavy=True)  # fmt: skip
    yield BadJob("minus-ps", put("spec", "tfReplicaSpecs", "PS", "replicas", value=-2),
                 ("spec.tfReplicaSpecs.PS.replicas", "-2", COUNTS), ps=1)  # fmt: skip


def _rename(old: str, new: str) -> Change:
    def change(job: Json) -> None:
        roles = job["spec"]["tfReplicaSpecs"]
        roles[new] = roles.pop(old)

    return change


def _quantities() -> Iterator[BadJob]:
    least = "0 or more"
    for n, (kind, name, value) in enumerate(
        (
            ("requests", "cpu", "-1"), ("requests", "memory", "-1Gi"), ("limits", "cpu", "-500m"),
            ("requests", "nvidia.com/gpu", "-1"), ("limits", "nvidia.com/gpu", -1),
            ("requests", "ephemeral-storage", "-1Ki"),
        )
    ):  # fmt: skip
        yield BadJob(f"quantity-{n}", resources(kind, name, value), (f"{CONTAINER}.{kind}.{name}", shown(value), least))
    overhead = worker("template", "spec", "overhead", "cpu", value="-1")
    yield BadJob("overhead", overhead, (f"{WORKER}.template.spec.overhead.cpu", "'-1'", least))
    starter = {"name": "init", "image": "none", "resources": {"requests": {"cpu": "-2"}}}
    yield BadJob("init-container", worker("template", "spec", "initContainers", value=[starter]),
                 ("initContainers[0].resources.requests.cpu", "'-2'", least))  # fmt: skip
    for n, value in enumerate(("1e30", "1e99999", "1e999999999", "9" * 400)):
        yield BadJob(f"huge-{n}", resources("requests", "cpu", value), (f"{CONTAINER}.requests.cpu", shown(value)),
                     heavy=True)  # fmt: skip


def too_large() -> list[BadJob]:
    """Return well-formed jobs that are too large for any cluster."""
    return [
        BadJob("million-cores", resources("requests", "cpu", "1000000"), ("cpu",), reason="GangExceedsCluster"),
        BadJob("exbibyte", resources("requests", "memory", "1Ei"), ("memory",), reason="GangExceedsCluster"),
    ]


def _refused_by_the_server() -> Iterator[BadJob]:
    for n, change in enumerate(
        (
            resources("requests", "cpu", "abc"), resources("requests", "cpu", "1Zi"),
            resources("requests", "cpu", "\u0661"), resources("requests", "cpu", 0.5),
            resources("requests", "memory", "1 Gi"), resources("requests", "cpu", []),
            worker("replicas", value="two"), worker("replicas", value=1.5), worker("replicas", value=10**10),
            worker("replicas", value=True), worker("template", value=[]),
            worker("template", "spec", "containers", value="x"), put("spec", "tfReplicaSpecs", value=[]),
            put("spec", "runPolicy", "schedulingPolicy", "minAvailable", value="many"),
            put("metadata", "annotations", MIN, value=2), put("metadata", "annotations", value=["x"]),
        )
    ):  # fmt: skip
        yield BadJob(f"server-{n}", change, server=True)
