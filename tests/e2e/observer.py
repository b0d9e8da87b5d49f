"""An observer that learns of pods from the API server only, so that it is independent of Kohort's ledger."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from kubernetes.utils.quantity import parse_quantity

from tests.controlplane import ControlPlane
from tests.e2e.background import Background
from tests.e2e.jobsets import INDEX_OF_SET, ROLE_OF_SET

Json = dict[str, Any]
JOB_LABEL, ROLE_LABEL, INDEX_LABEL = (
    f"training.kubeflow.org/{k}" for k in ("job-name", "replica-type", "replica-index")
)
OWN_JOB_LABEL = "batch.kubernetes.io/job-name"
NAME_LABEL = "tests.kohort.dev/job"  # This label names the job on pods whose controller writes no such label.
JOB_LABELS = (NAME_LABEL, JOB_LABEL, OWN_JOB_LABEL)
INDEX_LABELS = (INDEX_LABEL, "batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index")
SLOT = "kohort.dev/slot"  # Pods of a Deployment or a pod group have their index only in this annotation.


@dataclass(frozen=True, slots=True)
class Sighting:
    """A pod as the API server showed it at ``at`` (monotonic seconds); ``gone`` tells that it was deleted then."""

    at: float
    job: str
    role: str
    index: int
    uid: str
    node: str
    phase: str
    terminating: bool
    gone: bool
    cores: float = 0.0

    @property
    def member(self) -> tuple[str, int]:
        """Return role and index."""
        return self.role, self.index

    def holds(self, node: str) -> bool:
        """Tell whether the pod takes room on the node, as terminating pods still do."""
        return self.node == node and not self.gone and self.phase not in ("Succeeded", "Failed")

    @property
    def bound(self) -> bool:
        """Tell whether the pod has a node, and has neither ended nor is terminating."""
        return bool(self.node) and not (self.gone or self.terminating or self.phase in ("Succeeded", "Failed"))


@dataclass(slots=True)
class ClusterObserver(Background):
    """Follows the pods of one namespace in a thread; use it as a context manager.

    ``deleted_at`` holds by job name when the job's user deleted the job (monotonic seconds); the test sets it.
    """

    plane: ControlPlane
    namespace: str
    sightings: list[Sighting] = field(default_factory=list)
    deleted_at: dict[str, float] = field(default_factory=dict)
    problem: str = ""

    def run(self) -> None:
        """Follow the pods from the list on, watch by watch."""
        version = ""
        with httpx.Client(base_url=self.plane.url, verify=self.plane.tls, timeout=None, trust_env=False) as client:
            while not self.stopped.is_set():
                try:
                    version = self._watch(client, version)
                except httpx.TransportError as error:
                    self.problem = str(error)
                    time.sleep(0.05)

    def _watch(self, client: httpx.Client, version: str) -> str:
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        if not version:
            listed = client.get(path).json()
            for item in listed["items"]:
                self._note(item, gone=False)
            version = listed["metadata"]["resourceVersion"]
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "2"}
        with client.stream("GET", path, params=query) as answer:
            for line in answer.iter_lines():
                event = json.loads(line)
                assert event["type"] != "ERROR", event
                version = event["object"]["metadata"]["resourceVersion"]
                self._note(event["object"], gone=event["type"] == "DELETED")
        return version

    def _note(self, pod: Json, *, gone: bool) -> None:
        meta, labels = pod["metadata"], pod["metadata"].get("labels", {})
        role, index = _member(meta)
        self.sightings.append(
            Sighting(
                time.monotonic(),
                next((labels[key] for key in JOB_LABELS if key in labels), meta["name"]),
                role,
                index,
                meta["uid"],
                pod["spec"].get("nodeName", ""),
                pod["status"].get("phase", "Pending"),
                "deletionTimestamp" in meta,
                gone,
                sum(map(cores_of, pod["spec"]["containers"])),
            )
        )

    # -- The methods below return what was observed. -----------------------------------------------

    def jobs(self) -> set[str]:
        """Return every job of which a pod was seen."""
        return {sighting.job for sighting in self.sightings}

    def partial_seconds(self, job: str, least: int, now: float | None = None) -> float:
        """Return for how many seconds at most the job was half bound (one to ``least`` - 1 members) before it ended."""
        longest, since = 0.0, None
        for at, count, ended in self._counts(job):
            if ended:
                break
            partial = 0 < count < least
            if since is not None and not partial:
                longest = max(longest, at - since)
            since = (since if since is not None else at) if partial else None
        else:
            longest = max(longest, (now or time.monotonic()) - since) if since is not None else longest
        return longest

    def _counts(self, job: str) -> Iterator[tuple[float, int, bool]]:
        last: dict[str, Sighting] = {}
        for sighting in list(self.sightings):
            if sighting.job == job:
                last[sighting.uid] = sighting
                yield sighting.at, sum(1 for seen in last.values() if seen.bound), self._ends(sighting)

    def _ends(self, sighting: Sighting) -> bool:
        """Tell whether the job had ended at that moment: this member had ended, or the user had deleted the job."""
        deleted = sighting.at >= self.deleted_at.get(sighting.job, math.inf)
        return deleted or sighting.phase in ("Succeeded", "Failed")

    def least_bound(self, job: str, least: int) -> int:
        """Return the smallest number of bound members after the job first had ``least`` of them and before it ended."""
        counts = [count for _, count, ended in itertools.takewhile(lambda seen: not seen[2], self._counts(job))]
        return min(itertools.dropwhile(lambda count: count < least, counts), default=least)

    def taken_before_higher(self, job: str, role: str, burst: float) -> list[tuple[int, set[int]]]:
        """Return (index, higher indices) of each bound member that was removed while members of higher index stayed.

        Members that are deleted together are seen one after the other, so a member counts as staying only if it is
        still bound ``burst`` seconds later.
        """
        of_job = (sighting for sighting in list(self.sightings) if sighting.job == job)
        running = itertools.takewhile(lambda sighting: not self._ends(sighting), of_job)
        seen = [sighting for sighting in running if sighting.role == role]
        found, before = list[tuple[int, set[int]]](), dict[str, Sighting]()
        for n, sighting in enumerate(seen):
            was = before.get(sighting.uid)
            if was is not None and was.bound and (sighting.terminating or sighting.gone):
                after = {s.uid: s for s in seen[n:] if s.at <= sighting.at + burst}
                stay = [s for uid, s in before.items() if s.bound and after.get(uid, s).bound]
                higher = {s.index for s in stay if s.index > was.index}
                found += [(was.index, higher)] if higher else []
            before[sighting.uid] = sighting
        return found

    def most_bound(self, job: str, role: str = "worker") -> int:
        """Return the largest number of members of that role that were bound at the same time."""
        last: dict[str, bool] = {}
        most = 0
        for sighting in list(self.sightings):
            if sighting.job == job and sighting.role == role:
                last[sighting.uid] = sighting.bound
                most = max(most, sum(last.values()))
        return most

    def there_now(self, job: str) -> list[Sighting]:
        """Return the latest sighting of each pod of the job that still exists."""
        last = {s.uid: s for s in list(self.sightings) if s.job == job}
        return [sighting for sighting in last.values() if not sighting.gone]

    def bound_now(self, job: str, role: str | None = None) -> list[Sighting]:
        """Return the members that are bound now."""
        last = {s.uid: s for s in list(self.sightings) if s.job == job and (role is None or s.role == role)}
        return sorted((s for s in last.values() if s.bound), key=lambda s: (s.role, s.index))

    def first_nodes(self, job: str) -> dict[tuple[str, int], str]:
        """Return the node on which each member was first bound."""
        nodes: dict[tuple[str, int], str] = {}
        for sighting in list(self.sightings):
            if sighting.job == job and sighting.bound:
                nodes.setdefault((sighting.role, sighting.index), sighting.node)
        return nodes

    def cross_node_pairs(self, jobs: Iterable[str]) -> int:
        """Return the number of ps-worker pairs on different nodes, over all jobs."""
        pairs = 0
        for job in jobs:
            by_role: dict[str, list[str]] = defaultdict(list)
            for (role, _), node in self.first_nodes(job).items():
                by_role[role].append(node)
            pairs += sum(1 for server in by_role["ps"] for worker in by_role["worker"] if server != worker)
        return pairs

    def deleted(self, job: str, role: str) -> int:
        """Return how many bound pods of that role were deleted before they ended."""
        last: dict[str, Sighting] = {}
        count = 0
        for sighting in list(self.sightings):
            if sighting.job == job and sighting.role == role:
                before = last.get(sighting.uid)
                count += bool(before is not None and before.bound and (sighting.terminating or sighting.gone))
                last[sighting.uid] = sighting
        return count


def _member(meta: Json) -> tuple[str, int]:
    """Return role and index from the pod's labels, or the index from the binding's annotation; without both it is 0."""
    labels = meta.get("labels", {})
    role = f"{labels[ROLE_OF_SET]}-{labels[INDEX_OF_SET]}" if ROLE_OF_SET in labels else "worker"
    bound_as = meta.get("annotations", {}).get(SLOT, "0").rpartition("-")[2]
    return labels.get(ROLE_LABEL, role), int(next((labels[key] for key in INDEX_LABELS if key in labels), bound_as))


def cores_of(container: Json) -> float:
    """Return the cores that a container requests."""
    asked = container.get("resources", {}).get("requests", {}).get("cpu", "0")
    return float(parse_quantity(asked))  # type: ignore[no-untyped-call]
