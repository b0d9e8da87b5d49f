"""Check Kohort's writes on pods and jobs, and their preconditions (S3, S4, S11, S12, S13)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from extender.kube.api import BATCHJOBS, Json, Ref, Resource
from extender.kube.jobkinds import (
    CHECKPOINT,
    DELETION_COST,
    ELASTIC_PS,
    FAILURES,
    FORGIVE,
    GATE,
    LEADER,
    MEMORY,
    MIGRATABLE,
    RELEASED,
    REPORTS,
    SLOT,
    WAKE,
    deletion_cost,
)
from lab.embedded.apirules import HAS_SCALE
from lab.sim.objects import KOHORT, JobObject, PodObject, WorkloadKind
from lab.sim.pods.world import SimulatedWorld
from lab.virtual.clocks import loop_time
from tests.simulation.past import STALE, Past, broken

MOST_MOVES: Final = 1


class Writes:
    """Checks each of Kohort's writes when it arrives at the API server.

    ``past`` has the jobs' history by UID, and ``stored`` returns the object that the API server has.
    """

    def __init__(self, world: SimulatedWorld, past: Mapping[str, Past], violated: Callable[[str, str], None]) -> None:
        self.policy = ""
        self.stored: Callable[[Ref], Json | None] = lambda ref: None
        self.group_whole_since: Callable[[PodObject], float | None] = lambda pod: None
        self._world = world
        self._past = past
        self._violated = violated

    # -- The methods below check writes to pods. -------------------------------------------------

    def to_pod(self, who: str, verb: str, ref: Ref, content: Mapping[str, Any]) -> None:
        pod = self._world.store.pod_named(ref.namespace, ref.name)
        if not content.get("uid"):
            self._violated("S3", f"{who} {verb} {ref.name} has no uid")
        if pod is None or pod.uid != content["uid"]:
            return
        if pod.scheduler != KOHORT and verb != "bind":
            self._violated("S12", f"{who} {verb} {ref.name}, which did not opt in")
        allowed = {"patch", "delete", "bind"} if pod.kind.ends else {"patch", "delete", "evict", "bind"}
        if verb not in allowed or who != ("extender" if verb == "bind" else "controller"):
            self._violated("S11", f"{who} may not {verb} pods")
        if verb in ("delete", "evict"):
            self._check_delete(pod)
        if verb == "patch":
            self._check_pod_patch(pod, content["patch"])

    def _check_delete(self, pod: PodObject) -> None:
        """Check S4: only bound pods of an incomplete gang are deleted, and those of a job only while it is suspended.

        For kinds that cannot be suspended, pods are deleted to release a gang or to move it.
        """
        if not pod.owner:
            self._check_delete_in_group(pod)
            return
        past, job = self._past[pod.owner], self._world.store.jobs.get(pod.owner)
        if not pod.kind.ends:
            moves = self.policy == "oasis" or (job is not None and self._may_move(job))
            if not moves and past.whole_since is not None and loop_time() - past.whole_since > STALE:
                self._violated("S4", f"{pod.key} is deleted although its gang is whole")
            return
        if past.whole_since is not None and loop_time() - past.whole_since > STALE:
            self._violated("S4", f"{pod.key} is deleted although its gang is whole")
        if job is not None and not job.suspended and loop_time() - past.suspended_at > STALE:
            self._violated("S4", f"{pod.key} is deleted, for which the operator fails {job.key}: it is not suspended")

    def _check_delete_in_group(self, pod: PodObject) -> None:
        """Check S4: a group's pods are deleted only if it has a controller and its gang is incomplete."""
        since = self.group_whole_since(pod)
        if not pod.controller:
            self._violated("S4", f"{pod.key} is deleted, which nobody creates again")
        elif since is not None and loop_time() - since > STALE:
            self._violated("S4", f"{pod.key} is deleted although its group is whole")

    def _check_pod_patch(self, pod: PodObject, patch: Any) -> None:
        if isinstance(patch, list):
            allowed = all(
                step["path"].startswith(("/spec/schedulingGates", "/metadata/", "/status/conditions/"))
                for step in patch
            )
            removed = [step for step in patch if step["op"] == "remove"]
            if not allowed or (removed and not any(s.get("value") == GATE for s in patch if s["op"] == "test")):
                self._violated("S11", f"patch of {pod.key}: {patch}")
            return
        notes = patch.get("metadata", {}).get("annotations", {}).keys() - {WAKE}
        job = self._world.store.jobs.get(pod.owner)
        # The annotations of a deleted job are not known any more, so a checkpoint may be asked for.
        if job is None or self._may_move(job):
            notes -= {CHECKPOINT}
        if pod.kind is WorkloadKind.DEPLOYMENT and _numbers(patch):
            notes -= {SLOT, DELETION_COST}
        status = patch.get("status", {}).keys() - {"nominatedNodeName"}
        if notes or status or patch.keys() - {"metadata", "status"}:
            self._violated("S11", f"patch of {pod.key}: {patch}")

    # -- The method below checks writes to nodes. ------------------------------------------------

    def to_node(self, who: str, verb: str, ref: Ref, content: Mapping[str, Any]) -> None:
        """Check S3 and S12: only the annotations of failures are written, by the controller, with preconditions."""
        if not content.get("uid") or not content.get("version"):
            self._violated("S3", f"{who} {verb} {ref.name} without uid or version")
        patch: Json = content.get("patch") or {}
        notes = patch.get("metadata", {}).get("annotations", {}).keys() - {FAILURES, FORGIVE}
        if (who, verb) != ("controller", "patch") or notes or patch.keys() != {"metadata"}:
            self._violated("S12", f"{who} {verb} {ref.name}: {patch}")

    # -- The methods below check writes to jobs. -------------------------------------------------

    def to_job(self, who: str, verb: str, ref: Ref, content: Mapping[str, Any]) -> None:
        """Check S3 (preconditions, and the bounds in that version of the job) and S4 (only the number of workers is
        changed).

        A job that its user has put beyond its maximum shrinks by one worker at a time.
        """
        job = self._world.store.job_named(ref.namespace, ref.name)
        patch: Json = content["patch"]
        if ref.resource in HAS_SCALE:
            self._check_scale(who, verb, ref, content, job)
            return
        if set(patch) == {"metadata"}:
            self._check_note(who, verb, ref, content)
            return
        spec = patch.get("spec", {})
        if spec.keys() & {"runPolicy", "suspend"}:
            self._check_suspension(who, verb, ref, content)
            return
        wanted = _workers_in(spec, ref.resource)
        if (who, verb) != ("controller", "patch") or wanted is None:
            self._violated("S4", f"{who} {verb} {ref.name}: {patch}")
            return
        if not content.get("uid") or not content.get("version"):
            self._violated("S3", f"patch of {ref.name} without uid or version")
        if job is None or job.uid != content["uid"]:
            return
        self._check_count(ref, content, job, wanted)

    def _check_scale(self, who: str, verb: str, ref: Ref, content: Mapping[str, Any], job: JobObject | None) -> None:
        """Check S3 and S4: a StatefulSet or Deployment is resized by its scale subresource, and not while it is
        stopped.
        """
        patch: Json = content["patch"]
        if (who, verb, content["subresource"], set(patch), set(patch.get("spec", {}))) != (
            "controller", "patch", "scale", {"spec"}, {"replicas"}
        ):  # fmt: skip
            self._violated("S4", f"{who} {verb} {ref.name}: {patch}")
            return
        if not content.get("uid") or not content.get("version"):
            self._violated("S3", f"scale of {ref.name} without uid or version")
        if job is not None and job.uid == content["uid"]:
            self._check_count(ref, content, job, patch["spec"]["replicas"])

    def _check_count(self, ref: Ref, content: Mapping[str, Any], job: JobObject, wanted: int) -> None:
        stored = self.stored(ref)
        if stored is None or stored["metadata"]["resourceVersion"] != content["version"]:
            return  # The API server will refuse this write, because its precondition does not hold.
        self._past[job.uid].asked = job.spec.workers
        if job.stopped and not job.spec.kind.ends:
            self._violated("S4", f"{job.key} is stopped by its user, and started again")
        if broken(job):
            self._violated("S13", f"{job.key} is resized although its bounds cannot be read")
        elif not job.spec.min_workers <= wanted <= max(job.spec.max_workers, job.spec.workers - 1):
            bounds = f"{job.spec.min_workers}..{job.spec.max_workers}"
            self._violated("S3", f"{job.key} is resized to {wanted}, outside {bounds}")

    def _check_suspension(self, who: str, verb: str, ref: Ref, content: Mapping[str, Any]) -> None:
        """Check S4: a suspension has preconditions and Kohort's mark, and a user's suspension is never ended.

        A complete gang is not suspended, and no job is resumed too early.
        """
        patch, job = content["patch"], self._world.store.job_named(ref.namespace, ref.name)
        plain, spec = ref.resource == BATCHJOBS, patch["spec"]
        on, roles = (spec if plain else spec["runPolicy"]).get("suspend"), spec.get("tfReplicaSpecs")
        suspends = {"suspend": on} if plain else {"runPolicy": {"suspend": on}}
        others = {"tfReplicaSpecs": roles} if roles is not None and not on else {}
        ours = {"metadata": {"annotations": {RELEASED: "true" if on else None}}, "spec": {**suspends, **others}}
        if (who, verb, patch) != ("controller", "patch", ours):
            self._violated("S4", f"{who} {verb} {ref.name}: {patch}")
        if not content.get("uid") or not content.get("version"):
            self._violated("S3", f"patch of {ref.name} without uid or version")
        stored = self.stored(ref)
        if job is None or stored is None or stored["metadata"]["resourceVersion"] != content["version"]:
            return  # The API server will refuse this write, because its precondition does not hold.
        if roles is not None and not self._may_have(job, roles):
            self._violated("S4", f"{job.key} goes on with {roles}")
        past = self._past[job.uid]
        if job.suspended and not job.released:
            self._violated("S4", f"{job.key} is suspended by its user, and {'marked as ours' if on else 'let go on'}")
        if on and past.whole_since is not None and loop_time() - past.whole_since > STALE:
            self._check_move(job, past)
        left = [pod for pod in self._world.store.pods_of(job.uid) if pod.node and (pod.holds_room or not plain)]
        if not on and left:
            self._violated("S4", f"{job.key} goes on while a pod of it terminates: the operator fails it")

    def _may_have(self, job: JobObject, roles: Mapping[str, Any]) -> bool:
        """Tell whether the job may be resumed with the number of ps in ``roles``: only under OASiS, and if its user
        allows it.
        """
        servers = roles.get("PS", {}).get("replicas", 0)
        allowed = self.policy == "oasis" and job.spec.annotations.get(ELASTIC_PS) == "true"
        return allowed and roles == {"PS": {"replicas": servers}} and 1 <= servers <= job.spec.max_workers

    def _check_note(self, who: str, verb: str, ref: Ref, content: Mapping[str, Any]) -> None:
        """Check S3 and S4: only reports and the policy's memory are written in annotations, with preconditions."""
        notes = content["patch"]["metadata"].get("annotations", {})
        if (who, verb) != ("controller", "patch") or not notes.keys() <= {REPORTS, MEMORY}:
            self._violated("S4", f"{who} {verb} {ref.name}: {content['patch']}")
        if not content.get("uid") or not content.get("version"):
            self._violated("S3", f"notes of {ref.name} without uid or version")

    def _check_move(self, job: JobObject, past: Past) -> None:
        """Check S4: a complete gang is suspended only for a pause by OASiS, or once to be moved if its user allows
        it.
        """
        if self.policy == "oasis":
            return
        past.moves += 1
        if not self._may_move(job):
            self._violated("S4", f"{job.key} is suspended although its gang is whole")
        elif past.moves > MOST_MOVES:
            self._violated("S4", f"{job.key} is moved again and again")

    def _may_move(self, job: JobObject) -> bool:
        return self.policy.endswith("specon") and job.spec.annotations.get(MIGRATABLE) == "true"


def unsigned(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the write without the leader's name, which every write has if a Lease decides who leads."""
    patch = content.get("patch")
    if not isinstance(patch, Mapping) or LEADER not in patch.get("metadata", {}).get("annotations", {}):
        return content
    notes = {key: value for key, value in patch["metadata"]["annotations"].items() if key != LEADER}
    meta = {**patch["metadata"], "annotations": notes}
    meta = meta if notes else {key: value for key, value in meta.items() if key != "annotations"}
    rest = {key: value for key, value in patch.items() if key != "metadata"}
    return {**content, "patch": {**rest, "metadata": meta} if meta else rest}


def _numbers(patch: Json) -> bool:
    """Tell whether the patch writes a pod's slot and the deletion cost that belongs to it, and nothing else."""
    notes = patch.get("metadata", {}).get("annotations", {})
    index = str(notes.get(SLOT, "")).rpartition("-")[2]
    return index.isdigit() and notes.get(DELETION_COST) == deletion_cost(int(index))[DELETION_COST]


def _workers_in(spec: Json, resource: Resource) -> int | None:
    """Return the number of workers that a patch of the spec sets; None if the patch changes anything else."""
    if resource == BATCHJOBS:
        found = spec.get("parallelism")
        whole = {"parallelism": found, "completions": found}
    else:
        found = spec.get("tfReplicaSpecs", {}).get("Worker", {}).get("replicas")
        whole = {"tfReplicaSpecs": {"Worker": {"replicas": found}}}
    return found if isinstance(found, int) and spec == whole else None
