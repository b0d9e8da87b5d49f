"""The simulated etcd: objects by UID and by name, one revision for each write, and the history of changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from lab.sim.objects import JobObject, ObjectKind, PodObject, Verb, WorldChange
from policy.cluster.node import Node

Object = TypeVar("Object", Node, JobObject, PodObject)


class WorldStore:
    """Objects and their history.

    All writes go through the ``put`` and ``drop`` methods; other code must only read the dictionaries.
    """

    def __init__(self, first_revision: int = 0) -> None:
        self.revision = first_revision
        self.compacted = first_revision
        self.history: list[WorldChange] = []
        self.nodes: dict[str, Node] = {}
        self.jobs: dict[str, JobObject] = {}
        self.pods: dict[str, PodObject] = {}
        self._named: dict[tuple[ObjectKind, str], str] = {}
        self._of_job: dict[str, dict[str, None]] = {}
        self._uids = 0

    def new_uid(self, kind: ObjectKind) -> str:
        """Return a new UID in the form of a UUID, from a counter, so that the same run gives the same UIDs."""
        self._uids += 1
        return f"{list(ObjectKind).index(kind):08x}-0000-4000-8000-{self._uids:012x}"

    def put_node(self, node: Node) -> Node:
        return self._put(ObjectKind.NODE, self.nodes, node.name, node)

    def put_job(self, job: JobObject) -> JobObject:
        self._named[ObjectKind.JOB, job.key] = job.uid
        return self._put(ObjectKind.JOB, self.jobs, job.uid, job)

    def put_pod(self, pod: PodObject) -> PodObject:
        self._named[ObjectKind.POD, pod.key] = pod.uid
        if pod.owner:
            self._of_job.setdefault(pod.owner, {})[pod.uid] = None
        return self._put(ObjectKind.POD, self.pods, pod.uid, pod)

    def drop_node(self, name: str) -> None:
        self._record(ObjectKind.NODE, Verb.DELETED, lambda at: replace(self.nodes.pop(name), version=at))

    def drop_job(self, uid: str) -> None:
        del self._named[ObjectKind.JOB, self.jobs[uid].key]
        self._record(ObjectKind.JOB, Verb.DELETED, lambda at: replace(self.jobs.pop(uid), version=at))

    def drop_pod(self, uid: str) -> None:
        pod = self.pods[uid]
        del self._named[ObjectKind.POD, pod.key]
        if pod.owner:
            del self._of_job[pod.owner][uid]
        self._record(ObjectKind.POD, Verb.DELETED, lambda at: replace(self.pods.pop(uid), version=at))

    def job_named(self, namespace: str, name: str) -> JobObject | None:
        """Return the job with that name, or None."""
        return self.jobs.get(self._named.get((ObjectKind.JOB, f"{namespace}/{name}"), ""))

    def pod_named(self, namespace: str, name: str) -> PodObject | None:
        """Return the pod with that name, or None."""
        return self.pods.get(self._named.get((ObjectKind.POD, f"{namespace}/{name}"), ""))

    def pods_of(self, job_uid: str) -> list[PodObject]:
        """Return the job's pods in the order of their creation."""
        return [self.pods[uid] for uid in self._of_job.get(job_uid, ())]

    def since(self, revision: int) -> list[WorldChange] | None:
        """Return the changes after that revision in order, or None if they were compacted (410 Gone)."""
        if revision < self.compacted:
            return None
        return self.history[len(self.history) - (self.revision - revision) :] if revision < self.revision else []

    def compact(self, revision: int) -> None:
        """Drop the changes up to that revision."""
        kept = self.since(min(max(revision, self.compacted), self.revision)) or []
        self.history, self.compacted = kept, self.revision - len(kept)

    def _put(self, kind: ObjectKind, objects: dict[str, Object], key: str, found: Object) -> Object:
        verb = Verb.MODIFIED if key in objects else Verb.ADDED
        stored = replace(found, version=self.revision + 1)
        objects[key] = stored
        self._record(kind, verb, lambda _: stored)
        return stored

    def _record(self, kind: ObjectKind, verb: Verb, make: Callable[[int], Node | JobObject | PodObject]) -> None:
        self.revision += 1
        self.history.append(WorldChange(self.revision, kind, verb, make(self.revision)))
