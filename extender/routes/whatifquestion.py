"""What-if: applies the changes in a question to a copy of the ledger, and says which jobs the policy would change."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from extender.kube.fields import ObjectError, part, text
from extender.kube.jobkinds import KINDS, MAX_WORKERS, MIN_WORKERS, UTILITY, JobKind
from extender.kube.jobobjects import valid_job
from extender.kube.templates import pod_templates
from extender.present.views.whatif import WhatIfView
from extender.present.whatifview import what_if_view
from extender.routes.problems import ProblemError, wrong
from extender.routes.wording import BODY
from policy.answers.whatif import submitted, what_if
from policy.cluster.events import Event, NodeGone, NodeSeen, Tick
from policy.cluster.job import Job
from policy.cluster.node import Node
from policy.cluster.snapshot import Snapshot
from policy.cluster.words import listed
from policy.systems import make_policy
from policy.systems.base import Policy

NAME: Final = "what-if"
REQUESTS_AT: Final = ".resources.requests"
BOUNDS: Final = {MIN_WORKERS: "min_workers", MAX_WORKERS: "max_workers", UTILITY: "utility"}
COUNTS: Final = {f"spec.tfReplicaSpecs.{role}.replicas": name for role, name in (("Worker", "workers"), ("PS", "ps"))}
Number = Annotated[int, Field(ge=1, le=100_000)]
UID = "what-if"
OURS = "kohort.dev/"
MOST_NODES = 500  # one question may add at most this many nodes, because each takes time from the event loop
MOST_NAMES = 500
MOST_MEMBERS = 5_000
# an added node gets this name: no real node can have it, and it sorts directly after the node ``like``
ADDED = "{like} (added {number})"
EXISTS = "for an existing job, `kohort explain` says what would admit it"
SOMETHING = "at least one of job, shape, cordon, uncordon, remove_nodes, add_nodes and policy"
JOB_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
ANOTHER_GANG = "a job whose pods are a gang of their own; ask about the object that it belongs to"


class Shape(BaseModel):
    """A job of equal workers, and of ps that request the same as a worker.

    Whatever its framework, the job is treated as a TFJob with that many ps and workers. ``requests``: what each member
    requests, as in a pod. A job without bounds (min_workers, max_workers) is a rigid gang.
    """

    model_config = ConfigDict(extra="forbid")

    workers: Number = Field(description="The number of workers.")
    ps: int = Field(0, ge=0, le=100_000, description="The number of ps.")
    requests: dict[str, str] = Field(
        description='What each member requests: {"cpu": "2", "memory": "4Gi"}.', max_length=50
    )
    min_workers: Number | None = Field(None, description="The minimum of workers.")
    max_workers: Number | None = Field(None, description="The maximum of workers.")
    utility: float | None = Field(None, gt=0, description="The utility, as in the annotation kohort.dev/utility.")
    namespace: str = Field("default", description="The namespace in which the job would be created.")

    def manifest(self, scheduler_name: str) -> dict[str, Any]:
        """Return the manifest of a TFJob of this shape."""
        container = {"name": "tensorflow", "image": NAME, "resources": {"requests": self.requests}}
        template = {"spec": {"schedulerName": scheduler_name, "containers": [container]}}
        counts = {"PS": self.ps, "Worker": self.workers}
        said = {"min-workers": self.min_workers, "max-workers": self.max_workers, "utility": self.utility}
        notes = {f"kohort.dev/{name}": f"{value:g}" for name, value in said.items() if value is not None}
        return {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": {"name": NAME, "namespace": self.namespace, "annotations": notes},
            "spec": {
                "enableDynamicWorker": True,
                "tfReplicaSpecs": {
                    role: {"replicas": count, "template": template} for role, count in counts.items() if count
                },
            },
        }

    def refused(self, error: ObjectError) -> ProblemError:
        """Return an error about the manifest as a problem, with the shape's field names in place of the manifest's."""
        allowed = error.allowed
        for name, own in BOUNDS.items():
            allowed = allowed.replace(name, own)
        return wrong(_field_of(error.field), error.value, allowed)


def _field_of(path: str) -> str:
    """Return the field of the question that corresponds to this path in the shape's manifest."""
    _, found, resource = path.partition(REQUESTS_AT)
    if found:
        return f"shape.requests{resource}"
    own = {**BOUNDS, **COUNTS}.get(path)
    return f"shape.{own}" if own else "shape"


class _Question(BaseModel):
    model_config = ConfigDict(extra="forbid")


class MoreNodes(_Question):
    """A request to add ``count`` nodes that are equal to the existing node ``like``."""

    like: str = Field(description="The name of an existing node.")
    count: int = Field(
        1,
        ge=1,
        le=MOST_NODES,
        description="The number of equal nodes to add; the answer names them `LIKE (added 1)` and so on.",
    )


class WhatIf(_Question):
    """The question of what-if: which changes to suppose. Each part may be left out, and nothing is written anywhere."""

    job: dict[str, Any] | None = Field(None, description="A job's manifest, as for kubectl create.")
    shape: Shape | None = Field(None, description="A job described by a few figures, in place of a manifest.")
    cordon: tuple[str, ...] = Field((), max_length=MOST_NAMES, description="Nodes that would take no new pods.")
    uncordon: tuple[str, ...] = Field((), max_length=MOST_NAMES, description="Nodes that would take new pods again.")
    remove_nodes: tuple[str, ...] = Field((), max_length=MOST_NAMES, description="Nodes that would be removed.")
    add_nodes: tuple[MoreNodes, ...] = Field((), max_length=MOST_NAMES, description="Nodes that would be added.")
    policy: str = Field("", description="The policy that would decide; empty: the one that decides now.")
    parameters: dict[str, Any] = Field({}, description="The parameters of that policy.")

    @property
    def empty(self) -> bool:
        """Tell whether the question supposes no change."""
        nodes = (self.cordon, self.uncordon, self.remove_nodes, self.add_nodes)
        return self.job is None and self.shape is None and not any((*nodes, self.policy, self.parameters))

    @property
    def namespace(self) -> str | None:
        """Return the namespace in which the job would be created; None if the question has no new job."""
        if self.shape is not None:
            return self.shape.namespace
        return _namespace_of(self.job) if self.job is not None else None


def answer(question: WhatIf, snapshot: Snapshot, policy: Policy, scheduler_name: str, now: float) -> WhatIfView:
    """Return the jobs whose state, place in the queue or nodes would change.

    Raise ProblemError if the question is wrong. The function is pure. A replica that does not lead answers as if it
    led.
    """
    if question.empty:
        raise ProblemError(422, f"{BODY}: the question is empty; allowed: {SOMETHING}", BODY, "{}", SOMETHING)
    chosen = _policy(question, policy)
    events = [*_node_events(question, snapshot), *_job_events(question, snapshot, scheduler_name, now), Tick()]
    moved = what_if(replace(snapshot, leading=True), events, chosen, now, policy)
    return what_if_view(snapshot, chosen, moved)


def _namespace_of(manifest: Mapping[str, Any]) -> str:
    meta = manifest.get("metadata")
    found = meta.get("namespace") if isinstance(meta, Mapping) else None
    return found if isinstance(found, str) and found else "default"


def _policy(question: WhatIf, policy: Policy) -> Policy:
    if not question.policy:
        if question.parameters:
            raise wrong("parameters", ", ".join(question.parameters), "only together with policy")
        return policy
    try:
        return make_policy(question.policy, **question.parameters)
    except ValueError as error:
        said = str(error).removeprefix("policy ")
        raise ProblemError(422, f"policy: {said}", "policy", question.policy, said) from None


def _node_events(question: WhatIf, snapshot: Snapshot) -> Iterator[Event]:
    for names, shut in ((question.cordon, True), (question.uncordon, False)):
        for name in names:
            node = _node(snapshot, "cordon" if shut else "uncordon", name)
            yield NodeSeen(replace(node, unschedulable=True) if shut else replace(node.reopened, ready=node.ready))
    for name in question.remove_nodes:
        yield NodeGone(_node(snapshot, "remove_nodes", name).name)
    if (added := sum(more.count for more in question.add_nodes)) > MOST_NODES:
        raise wrong("add_nodes", added, f"at most {MOST_NODES} nodes in one question")
    numbers: dict[str, Iterator[int]] = defaultdict(lambda: count(1))
    for at, more in enumerate(question.add_nodes):
        like = _node(snapshot, f"add_nodes.{at}.like", more.like)
        for _ in range(more.count):
            fresh = ADDED.format(like=like.name, number=next(numbers[like.name]))
            yield NodeSeen(replace(like.reopened, name=fresh, uid=fresh))


def _node(snapshot: Snapshot, field: str, name: str) -> Node:
    if name not in snapshot.nodes:
        names = sorted(snapshot.nodes)
        raise wrong(field, name, f"one of {listed(names, 20)}" if names else "none, because no node is known")
    return snapshot.nodes[name]


def _job_events(question: WhatIf, snapshot: Snapshot, scheduler_name: str, now: float) -> Iterator[Event]:
    if question.job is not None and question.shape is not None:
        raise wrong("shape", "a shape beside a job", "either job or shape, not both")
    manifest = question.shape.manifest(scheduler_name) if question.shape is not None else question.job
    if manifest is None:
        return
    try:
        job = _job(manifest, scheduler_name, now)
    except ObjectError as error:
        raise _refused(question, error) from None
    _check_names(question, job, manifest)
    members = sum(role.replicas for role in job.roles)
    if members > MOST_MEMBERS:
        whose = "job" if question.shape is None else "shape"
        raise wrong(whose, members, f"a job of at most {MOST_MEMBERS} members in one question")
    if any(other.key == job.key and other.kind == job.kind for other in snapshot.jobs.values()):
        raise wrong("job.metadata.name", job.key, f"a name that no job has yet; {EXISTS}")
    yield from submitted(job)


def _job(manifest: Mapping[str, Any], scheduler_name: str, now: float) -> Job:
    """Return the job that the manifest states, with arrival time ``now``.

    Raise ObjectError if a field of its spec or an annotation is wrong, and ProblemError for any other fault.
    """
    kind = KINDS.get(str(manifest.get("kind")))
    if kind is None:
        raise wrong("job.kind", manifest.get("kind"), f"one of {', '.join(sorted(KINDS))}")
    if manifest.get("apiVersion") != (version := kind.resource.api_version):
        raise wrong("job.apiVersion", manifest.get("apiVersion"), f"{version} for a {kind.kind}")
    named = {"name": _name_of(manifest), "namespace": _namespace_of(manifest), "uid": UID}
    item = {**manifest, "metadata": {**part(manifest, "metadata"), **named}}
    job = valid_job(item, kind, scheduler_name)
    if job is None:
        raise _not_ours(item, kind, scheduler_name)
    return replace(job, arrival=now)


def _check_names(question: WhatIf, job: Job, manifest: Mapping[str, Any]) -> None:
    """Raise ProblemError for a name or namespace that the API server would refuse."""
    given = part(manifest, "metadata").get("namespace")
    if given not in (None, "") and not (isinstance(given, str) and NAMESPACE.fullmatch(given)):
        field = "job.metadata.namespace" if question.shape is None else "shape.namespace"
        raise wrong(field, given, "at most 63 lower-case letters, digits and '-'")
    if not JOB_NAME.fullmatch(job.name):
        raise wrong("job.metadata.name", job.name, "at most 253 lower-case letters, digits, '-' and '.'")


def _name_of(manifest: Mapping[str, Any]) -> str:
    """Return the job's name; for generateName, a name like the API server's. Raise ProblemError if neither is valid."""
    meta = part(manifest, "metadata")
    name = meta.get("name")
    if isinstance(name, str) and name:
        return name
    if not name and (prefix := text(meta, "generateName")):
        return f"{prefix}{UID}"
    raise wrong("job.metadata.name", name, "a name, or metadata.generateName in its place")


def _not_ours(item: dict[str, Any], kind: JobKind, scheduler_name: str) -> ProblemError:
    named = [text(part(template, "spec"), "schedulerName") for template in pod_templates(item, kind)]
    if scheduler_name in named:
        return wrong("job.metadata", item["metadata"]["name"], ANOTHER_GANG)
    field = f"job.spec.{f'{kind.replicas_at}.*.' if kind.replicas_at else ''}template.spec.schedulerName"
    return wrong(field, next(filter(None, named), None), scheduler_name)


def _refused(question: WhatIf, error: ObjectError) -> ProblemError:
    """Return an error about the job as a problem that names the wrong field by its path in the question."""
    if question.shape is not None:
        return question.shape.refused(error)
    notes = part(part(question.job, "metadata"), "annotations")
    noted = any(name.startswith(OURS) and error.field.startswith(name) for name in map(str, notes))
    return wrong(f"job.{'metadata.annotations.' if noted else ''}{error.field}", error.value, error.allowed)
