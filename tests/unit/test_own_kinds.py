"""Kubernetes' own kinds and groups of pods become gangs by their rows of the tables."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from extender.kube.api import BATCHJOBS, DEPLOYMENTS, JOBSETS, PODS, STATEFULSETS, Resource
from extender.kube.jobkinds import INDEXED_JOB, JOBSET, KINDS, SLOT, STATEFULSET
from extender.kube.podgroupkinds import COSCHEDULING, NATIVE, NATIVE_ALPHA, VOLCANO, GroupKind
from extender.kube.translate import Translator
from policy.cluster.events import Event, JobGone, JobSeen, PodGone, PodSeen
from policy.cluster.job import Job, Slot
from policy.cluster.pod import Pod
from tests.unit.test_translate import grafted, places

Json = dict[str, Any]
NOTES = {"kohort.dev/min-workers": "2", "kohort.dev/max-workers": "6"}
INDEX = "batch.kubernetes.io/job-completion-index"


def template(cpu: str = "1", scheduler: str = "kohort", labels: Json | None = None, **spec: Any) -> Json:
    container = {"name": "train", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"labels": labels or {}},
        "spec": {"schedulerName": scheduler, "containers": [container], **spec},
    }


def made(kind: str, version: str, spec: Json, owner: Json | None = None, **meta: Any) -> Json:
    return {
        "apiVersion": version, "kind": kind,
        "metadata": {
            "name": "train", "namespace": "team", "uid": "j1", "resourceVersion": "7",
            "creationTimestamp": "2026-11-21T09:00:00Z", "annotations": NOTES,
            **meta, "ownerReferences": [owner | {"controller": True}] if owner else [],
        },
        "spec": spec,
    }  # fmt: skip


def job(workers: int = 3, completions: int | None = None, **spec: Any) -> Json:
    counts = {"parallelism": workers, "completions": completions or workers, "completionMode": "Indexed"}
    return made("Job", "batch/v1", {**counts, "template": template(), **spec})


def stateful_set(workers: int = 3, **spec: Any) -> Json:
    return made("StatefulSet", "apps/v1", {
        "replicas": workers, "podManagementPolicy": "Parallel", "template": template(), **spec,
    })  # fmt: skip


def deployment(workers: int = 3, **spec: Any) -> Json:
    return made("Deployment", "apps/v1", {"replicas": workers, "template": template(), **spec})


def jobset(**spec: Any) -> Json:
    def part(name: str, replicas: int, pods: int, cpu: str) -> Json:
        inner = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template(cpu)}
        return {"name": name, "replicas": replicas, "template": {"spec": inner}}

    jobs = [part("driver", 1, 1, "2"), part("workers", 2, 3, "1")]
    return made("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": jobs, **spec}, annotations={})


def of(events: list[Event]) -> tuple[list[Job], list[Pod]]:
    jobs = [event.job for event in events if isinstance(event, JobSeen)]
    return jobs, [event.pod for event in events if isinstance(event, PodSeen)]


def seen(resource: Resource, item: Json, translator: Translator | None = None) -> Job:
    events = (translator or Translator("kohort")).events(resource, {"type": "ADDED", "object": copy.deepcopy(item)})
    (found,), _ = of(events)
    return found


# -- The tests below are about objects that are read as jobs. ------------------------------------

ELASTIC = {
    "Job": (BATCHJOBS, job()),
    "StatefulSet": (STATEFULSETS, stateful_set()),
    "Deployment": (DEPLOYMENTS, deployment()),
}


@pytest.mark.parametrize("kind", ELASTIC)
def test_a_kind_with_one_template_is_elastic_by_its_bounds(kind: str) -> None:
    found = seen(*ELASTIC[kind])
    assert (found.invalid, found.note) == ("", "")
    assert [(role.name, role.replicas, role.requests["cpu"]) for role in found.roles] == [("worker", 3, 1000)]
    assert (found.min_workers, found.max_workers, found.elastic, found.one_by_one) == (2, 6, True, False)
    assert found.suspends is (kind == "Job")


WRONG: dict[str, tuple[Resource, Json, str]] = {
    "a Job without indices": (BATCHJOBS, job(completionMode="NonIndexed"), "spec.completionMode: 'NonIndexed'"),
    "a Job that runs a few of its pods at a time": (BATCHJOBS, job(3, 9), "spec.completions: 9"),
    "a set that starts one by one": (
        STATEFULSETS, stateful_set(podManagementPolicy="OrderedReady"), "spec.podManagementPolicy: 'OrderedReady'",
    ),
    "a set that counts from ten": (STATEFULSETS, stateful_set(ordinals={"start": 10}), "spec.ordinals.start: 10"),
    "jobs that start in order": (
        JOBSETS, jobset(startupPolicy={"startupPolicyOrder": "InOrder"}), "spec.startupPolicy.startupPolicyOrder",
    ),
    "a set of jobs without any": (JOBSETS, jobset(replicatedJobs=[
        {"name": "a", "replicas": 0, "template": {"spec": {"template": template()}}},
    ]), "spec.replicatedJobs.*.replicas: 0"),
}  # fmt: skip


@pytest.mark.parametrize(("resource", "item", "told"), WRONG.values(), ids=WRONG.keys())
def test_what_could_never_be_a_gang_is_refused_by_field(resource: Resource, item: Json, told: str) -> None:
    assert seen(resource, item).invalid.startswith(told)


def test_a_kind_without_suspend_is_stopped_by_no_replicas() -> None:
    found = seen(DEPLOYMENTS, deployment(0))
    assert (found.suspended, found.invalid) == (True, "")
    assert seen(BATCHJOBS, job(suspend=True)).suspended


def test_a_scale_keeps_no_bound_that_follows_from_the_replicas() -> None:
    item = deployment() | {}
    item["metadata"]["annotations"] = {"kohort.dev/max-workers": "6"}
    found = seen(DEPLOYMENTS, item)
    assert (found.min_workers, found.max_workers, found.elastic) == (3, 3, False)
    assert "state both kohort.dev/min-workers and" in found.note


def test_a_jobset_has_a_role_for_each_of_its_jobs_and_is_rigid() -> None:
    found = seen(JOBSETS, jobset())
    assert {role.name: role.replicas for role in found.roles} == {"driver-0": 1, "workers-0": 3, "workers-1": 3}
    assert (found.size, found.elastic, found.suspends, found.invalid) == (7, False, True, "")


def test_who_made_an_object_is_the_gang_in_its_place() -> None:
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": "s1"}
    child = made("Job", "batch/v1", job()["spec"], owner)
    assert Translator("kohort").events(BATCHJOBS, {"type": "ADDED", "object": child}) == []
    cron = made(
        "Job", "batch/v1", job()["spec"], {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "c"}
    )
    assert seen(BATCHJOBS, cron).invalid == ""
    trainer = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "train", "uid": "t1"}
    assert not seen(JOBSETS, made("JobSet", "jobset.x-k8s.io/v1alpha2", jobset()["spec"], trainer)).suspends


def test_a_job_whose_pods_name_a_group_is_that_group() -> None:
    body = template(labels={"scheduling.x-k8s.io/pod-group": "g"})
    item = job(template=body)
    assert Translator("kohort").events(BATCHJOBS, {"type": "ADDED", "object": item}) == []


def test_patches() -> None:
    assert INDEXED_JOB.workers_patch(4) == {"spec": {"parallelism": 4, "completions": 4}}
    assert INDEXED_JOB.suspend_patch(True) == {"spec": {"suspend": True}}
    assert STATEFULSET.workers_patch(4) == {"spec": {"replicas": 4}}
    assert KINDS["TFJob"].workers_patch(4) == {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 4}}}}
    assert KINDS["TFJob"].suspend_patch(False) == {"spec": {"runPolicy": {"suspend": False}}}


def test_a_kind_whose_workers_cannot_be_changed_says_so() -> None:
    assert (JOBSET.worker, JOBSET.workers_at, JOBSET.resizes) == ("", "", False)
    with pytest.raises(ValueError, match="of a JobSet cannot be changed"):
        JOBSET.workers_patch(4)
    assert {kind.kind for kind in KINDS.values() if not kind.resizes} == {"JobSet"}


# -- The tests below are about the slots of the jobs' pods. --------------------------------------


def pod(name: str, owner: Json | None = None, node: str = "", **meta: Any) -> Json:
    item = made("Pod", "v1", template()["spec"] | ({"nodeName": node} if node else {}), owner, **meta)
    item["metadata"] |= {"name": name, "uid": f"u-{name}", "annotations": meta.get("annotations", {})}
    return item


JOB_OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j1"}
SET_OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "train", "uid": "j1"}
LONG = "a" * 63
MEMBERS: dict[str, tuple[Json, Slot | None]] = {
    "an index": (pod("train-2-x7k2p", JOB_OWNER, labels={INDEX: "2"}), Slot("worker", 2)),
    "another index than its name": (pod("train-1-x7k2p", JOB_OWNER, labels={INDEX: "2"}), None),
    "another job's name": (pod("other-2-x7k2p", JOB_OWNER, labels={INDEX: "2"}), None),
    "no label": (pod("train-2-x7k2p", JOB_OWNER), None),
    "a leading zero": (pod("train-02-x7k2p", JOB_OWNER, labels={INDEX: "02"}), None),
    "a long name is cut": (
        pod(f"{'a' * 55}-2-x7k2p", JOB_OWNER | {"name": LONG}, labels={INDEX: "2"}), Slot("worker", 2),
    ),
    "an ordinal": (pod("train-1", SET_OWNER, labels={"apps.kubernetes.io/pod-index": "1"}), Slot("worker", 1)),
    "an ordinal of another name": (pod("train-1-0", SET_OWNER, labels={"apps.kubernetes.io/pod-index": "1"}), None),
}  # fmt: skip


@pytest.mark.parametrize(("item", "slot"), MEMBERS.values(), ids=MEMBERS.keys())
def test_a_slot_is_what_the_controller_names(item: Json, slot: Slot | None) -> None:
    _, (found,) = of(Translator("kohort").pod_events(item))
    assert (found.job_uid, found.slot) == ("team/j1", slot)


SETS = "jobset.sigs.k8s.io"
LATER = "2026-11-21T09:30:00Z"


def child(name: str, index: int, role: str = "workers", at: int = 1) -> Json:
    labels = {
        f"{SETS}/jobset-name": "train", f"{SETS}/replicatedjob-name": role, f"{SETS}/job-index": str(at),
        INDEX: str(index),
    }  # fmt: skip
    return pod(name, JOB_OWNER | {"name": f"train-{role}-{at}", "uid": "child"}, labels=labels)


def test_a_jobsets_pod_belongs_to_it_through_the_job_between_them_whichever_is_seen_first() -> None:
    ours = Translator("kohort")
    _, (early,) = of(ours.pod_events(child("train-workers-1-2-abcde", 2)))
    assert (early.job_uid, early.slot) == ("", None)
    (found,), (late,) = of(ours.events(JOBSETS, {"type": "ADDED", "object": jobset()}))
    assert (late.uid, late.job_uid, late.slot) == (early.uid, found.uid, Slot("workers-1", 2))
    _, (forged,) = of(ours.pod_events(child("another-2-abcde", 2)))
    assert (forged.job_uid, forged.slot) == (found.uid, None)


def test_a_jobset_that_is_made_again_under_its_name_has_none_of_the_former_ones_pods() -> None:
    ours = Translator("kohort")
    ours.events(JOBSETS, {"type": "ADDED", "object": jobset()})
    _, (old,) = of(ours.pod_events(child("train-workers-1-2-abcde", 2)))
    assert old.job_uid
    ours.events(JOBSETS, {"type": "DELETED", "object": jobset()})
    again = jobset()
    again["metadata"] |= {"uid": "s2", "creationTimestamp": LATER}
    (found,), told = of(ours.events(JOBSETS, {"type": "ADDED", "object": again}))
    assert [pod for pod in told if pod.job_uid] == []
    made = child("train-workers-1-2-vwxyz", 2)
    made["metadata"] |= {"uid": "new", "creationTimestamp": LATER}
    _, (new,) = of(ours.pod_events(made))
    assert (new.job_uid, new.slot) == (found.uid, Slot("workers-1", 2))


# -- The tests below are about pods of Deployments, whose names have no index. -------------------


def replica(name: str, node: str = "", written: str = "", gone: bool = False) -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "train-abc", "uid": "rs"}
    notes = {"kohort.dev/slot": written} if written else {}
    item = pod(name, owner, node, labels={"pod-template-hash": "abc"}, annotations=notes)
    if gone:
        item["metadata"]["deletionTimestamp"] = "2026-11-21T09:05:00Z"
    return item


class Deployed:
    """A Deployment of three pods; ``slots`` has the slot index that the translator gave to each pod."""

    def __init__(self, workers: int = 3) -> None:
        self.translator = Translator("kohort")
        self.slots: dict[str, int | None] = {}
        # by pod: the slot written on the pod where the translator has given it another one
        self.written: dict[str, str] = {}
        self.take(self.translator.events(DEPLOYMENTS, {"type": "ADDED", "object": deployment(workers)}))

    def take(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, PodSeen):
                self.slots[event.pod.name] = event.pod.slot.index if event.pod.slot else None
                self.written.pop(event.pod.name, None)
                if event.pod.misnumbered:
                    self.written[event.pod.name] = str(event.pod.numbered)
            if isinstance(event, PodGone):
                self.slots.pop(event.uid.removeprefix("u-"))

    def sees(self, item: Json) -> None:
        self.take(self.translator.pod_events(item))

    def loses(self, item: Json) -> None:
        self.take(self.translator.pod_events(item, gone=True))


def test_pods_of_a_deployment_get_the_numbers_that_are_free() -> None:
    deployed = Deployed()
    for name in "abc":
        deployed.sees(replica(name))
    assert deployed.slots == {"a": 0, "b": 1, "c": 2}
    deployed.sees(replica("b", gone=True))
    deployed.sees(replica("d"))
    assert deployed.slots == {"a": 0, "b": 1, "c": 2, "d": 1}
    deployed.loses(replica("b"))
    assert deployed.slots == {"a": 0, "c": 2, "d": 1}


def test_only_the_pods_of_a_deployment_have_no_numbers_before_they_are_bound() -> None:
    assert seen(DEPLOYMENTS, deployment()).unnumbered
    assert not seen(STATEFULSETS, stateful_set()).unnumbered


def test_after_a_restart_a_bound_pod_has_the_number_that_its_binding_wrote() -> None:
    deployed = Deployed()
    deployed.sees(replica("a"))
    deployed.sees(replica("b", "n1", "worker-0"))
    deployed.sees(replica("c", "n1", "worker-2"))
    assert deployed.slots == {"a": 1, "b": 0, "c": 2}


def test_a_follower_takes_the_number_with_which_the_leader_has_bound_a_pod() -> None:
    """The follower saw the pods before they were bound, perhaps in another order, and numbered them itself."""
    deployed = Deployed()
    for name in "abc":
        deployed.sees(replica(name))
    for name, slot in (("c", "worker-0"), ("a", "worker-1"), ("b", "worker-2")):
        deployed.sees(replica(name, "n1", slot))
    assert deployed.slots == {"a": 1, "b": 2, "c": 0}
    assert deployed.written == {}


def test_whoever_was_bound_without_a_number_gives_way_to_the_pod_that_was_bound_with_it() -> None:
    """Pod c was bound by another scheduler while a follower numbered pods unlike the leader (simulation seed 1222)."""
    deployed = Deployed()
    for name in "abc":
        deployed.sees(replica(name))
    deployed.sees(replica("c", "n1"))
    for name, slot in (("b", "worker-2"), ("a", "worker-1")):
        deployed.sees(replica(name, "n1", slot))
    assert deployed.slots == {"a": 1, "b": 2, "c": 0}


def test_who_gives_way_goes_back_to_the_number_with_which_it_was_bound() -> None:
    """Pod b had moved up to number 1, which was free, until pod c, bound as number 1, appeared."""
    deployed = Deployed(workers=2)
    deployed.sees(replica("a", "n1", "worker-0"))
    deployed.sees(replica("b", "n1", "worker-2"))
    assert deployed.slots == {"a": 0, "b": 1}
    deployed.sees(replica("c", "n1", "worker-1"))
    assert deployed.slots == {"a": 0, "b": 2, "c": 1}


def test_where_another_than_the_last_was_removed_the_last_one_takes_its_place() -> None:
    deployed = Deployed(workers=3)
    for index, name in enumerate("abcd"):
        deployed.sees(replica(name, "n1", f"worker-{index}"))
    assert deployed.slots == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert deployed.written == {}
    deployed.sees(replica("b", "n1", "worker-1", gone=True))
    assert deployed.slots == {"a": 0, "b": 1, "c": 2, "d": 1}
    assert deployed.written == {"d": "worker-3"}
    deployed.sees(replica("d", "n1", "worker-1"))
    assert (deployed.slots["d"], deployed.written) == (1, {})


# -- The tests below are about pod groups. -------------------------------------------------------


def group(kind: GroupKind, least: int = 3, **meta: Any) -> Json:
    spec: Any = least
    for name in reversed(kind.least_at):
        spec = {name: spec}
    return made(
        "PodGroup", f"{kind.resource.group}/{kind.resource.version}", spec, **{"name": "g", "uid": "g1", **meta}
    )


def in_group(
    kind: GroupKind, name: str, cpu: str = "1", node: str = "", role: str = "", slot: str = "", **spec: Any
) -> Json:
    item = pod(name)
    item["metadata"]["annotations"] = {SLOT: slot} if slot else {}
    item["metadata"]["labels"] = {"training.kubeflow.org/replica-type": role} if role else {}
    item["spec"] = template(cpu)["spec"] | ({"nodeName": node} if node else {}) | spec
    *path, last = kind.named_at[0]
    found = item
    for part in path:
        found = found.setdefault(part, {})
    found[last] = "g"
    return item


class Grouped:
    """A group of pods, with the jobs and pods that the ledger would have in the end."""

    def __init__(self, kind: GroupKind = COSCHEDULING, least: int = 3) -> None:
        self.kind, self.translator = kind, Translator("kohort")
        self.jobs: dict[str, Job] = {}
        self.pods: dict[str, Pod] = {}
        self.change("ADDED", least)

    def change(self, verb: str, least: int = 3) -> None:
        self.take(self.translator.events(self.kind.resource, {"type": verb, "object": group(self.kind, least)}))

    def take(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case JobSeen(job):
                    self.jobs[job.uid] = job
                case JobGone(uid):
                    self.jobs.pop(uid, None)
                case PodSeen(pod):
                    self.pods[pod.name] = pod
                case PodGone(uid):
                    self.pods.pop(uid.removeprefix("u-"), None)
                case _:
                    raise AssertionError(event)

    def sees(self, name: str, cpu: str = "1", node: str = "", **told: Any) -> None:
        item = in_group(self.kind, name, cpu, node, **told)
        self.take(self.translator.events(PODS, {"type": "ADDED", "object": item}))

    def loses(self, name: str) -> None:
        self.take(self.translator.events(PODS, {"type": "DELETED", "object": in_group(self.kind, name)}))

    @property
    def gang(self) -> Job:
        return self.jobs["team/g1"]

    def slots(self) -> dict[str, str]:
        return {name: str(pod.slot) for name, pod in self.pods.items() if pod.job_uid == "team/g1"}


@pytest.mark.parametrize(
    "kind", [COSCHEDULING, VOLCANO, NATIVE, NATIVE_ALPHA], ids=["coscheduling", "volcano", "native", "native of 1.36"]
)
def test_a_group_is_a_rigid_gang_of_its_minimum(kind: GroupKind) -> None:
    grouped = Grouped(kind)
    grouped.sees("a")
    assert (grouped.gang.size, grouped.gang.elastic, grouped.gang.kind) == (3, False, "PodGroup")
    assert grouped.slots() == {"a": "worker-0"}
    grouped.sees("b")
    grouped.sees("c", cpu="2")
    (role,) = grouped.gang.roles
    assert (role.replicas, role.requests["cpu"], role.unsupported, grouped.gang.invalid) == (3, 2000, (), "")
    assert grouped.slots() == {"a": "worker-0", "b": "worker-1", "c": "worker-2"}


def test_pods_that_a_late_list_shows_beside_those_before_them_keep_the_numbers_they_bear() -> None:
    """The Deployment replaced its pods while the watch was silent (simulation seed 233)."""
    deployed = Deployed()
    for index, name in enumerate("abc"):
        deployed.sees(replica(name, "n1", f"worker-{index}"))
    for index, name in enumerate("xyz"):
        deployed.sees(replica(name, "n2", f"worker-{index}"))
    for name in "bac":
        deployed.loses(replica(name))
    assert deployed.slots == {"x": 0, "y": 1, "z": 2}
    assert deployed.written == {}


def test_pods_wait_for_their_group_and_are_nobodys_without_it() -> None:
    grouped = Grouped()
    grouped.sees("a")
    grouped.change("DELETED")
    assert (grouped.jobs, grouped.pods["a"].job_uid, grouped.pods["a"].slot) == ({}, "", None)
    grouped.change("ADDED")
    assert grouped.slots() == {"a": "worker-0"}


def test_pods_beyond_the_minimum_are_gangs_of_one_once_the_members_run_and_until_one_goes() -> None:
    grouped = Grouped(least=2)
    for name in "abc":
        grouped.sees(name)
    assert grouped.slots() == {"a": "worker-0", "b": "worker-1", "c": "worker-2"}
    assert grouped.gang.size == 2
    assert grouped.jobs.keys() == {"team/g1"}
    grouped.sees("a", node="n1")
    assert grouped.slots().keys() == {"a", "b", "c"}, "half of the group holds room"
    grouped.sees("b", node="n1")
    assert grouped.slots() == {"a": "worker-0", "b": "worker-1"}
    assert (grouped.pods["c"].job_uid, grouped.jobs["team/u-c"].kind) == ("team/u-c", "Pod")
    grouped.loses("a")
    assert grouped.slots() == {"b": "worker-1", "c": "worker-0"}
    assert grouped.jobs.keys() == {"team/g1"}


def test_a_pod_beyond_the_minimum_that_runs_stays_a_gang_of_one_when_a_member_comes_anew() -> None:
    grouped = Grouped(least=2)
    for name in "abc":
        grouped.sees(name, node="n1")
    assert grouped.jobs.keys() == {"team/g1", "team/u-c"}
    grouped.loses("b")
    assert grouped.slots() == {"a": "worker-0", "c": "worker-1"}, "it makes the group whole"
    grouped.sees("d")
    assert grouped.jobs.keys() == {"team/g1", "team/u-d"}, "the group has what it needs"


def test_a_follower_takes_the_places_in_which_the_leader_has_bound_a_groups_pods() -> None:
    """The follower saw the pods before they were bound, perhaps in another order (simulation seed 62)."""
    grouped = Grouped()
    for name in "abc":
        grouped.sees(name)
    for name, slot in (("c", "worker-0"), ("a", "worker-1"), ("b", "worker-2")):
        grouped.sees(name, node="n1", slot=slot)
    assert grouped.slots() == {"a": "worker-1", "b": "worker-2", "c": "worker-0"}


def test_a_member_that_a_late_event_shows_as_it_was_before_it_terminated_has_its_slot_again() -> None:
    """When c terminated, b got its slot; then c is shown once more as it was before (simulation seed 2100)."""
    grouped = Grouped()
    for index, name in enumerate("acb"):
        grouped.sees(name, node="n1", slot=f"worker-{index}")
    going = in_group(COSCHEDULING, "c", node="n1", slot="worker-1")
    going["metadata"]["deletionTimestamp"] = "2026-11-21T09:05:00Z"
    grouped.take(grouped.translator.events(PODS, {"type": "MODIFIED", "object": going}))
    assert grouped.slots()["b"] == "worker-1"
    grouped.sees("c", node="n1", slot="worker-1")
    assert grouped.slots() == {"a": "worker-0", "b": "worker-2", "c": "worker-1"}


def test_a_follower_takes_the_leaders_members_for_its_own() -> None:
    """The follower saw the pods in another order, and let other ones wait (simulation seed 35)."""
    grouped = Grouped(least=2)
    for name in "abc":
        grouped.sees(name)
    for name, slot in (("c", "worker-1"), ("a", "worker-0")):
        grouped.sees(name, node="n1", slot=slot)
    assert grouped.slots() == {"a": "worker-0", "c": "worker-1"}
    assert grouped.jobs.keys() == {"team/g1", "team/u-b"}


def test_a_restart_knows_the_members_from_the_pods_beyond_the_minimum() -> None:
    """The binding has written each member's slot on its pod (simulation seed 211)."""
    grouped = Grouped(least=2)
    for name, slot in (("a", "worker-0"), ("b", ""), ("c", "worker-1")):
        grouped.sees(name, node="n1", slot=slot)
    assert grouped.slots() == {"a": "worker-0", "c": "worker-1"}
    assert grouped.jobs.keys() == {"team/g1", "team/u-b"}


def test_a_pod_that_another_scheduler_has_bound_counts_before_a_member_that_waits() -> None:
    """The result is that of a restart, which numbers bound pods first (simulation seed 100118)."""
    grouped = Grouped()
    for name in "abcd":
        grouped.sees(name)
    grouped.sees("d", node="n1")
    assert grouped.slots() == {"a": "worker-0", "b": "worker-1", "d": "worker-2", "c": "worker-3"}
    assert grouped.jobs.keys() == {"team/g1"}
    grouped.sees("a", node="n1")
    grouped.sees("b", node="n1")
    assert grouped.slots() == {"a": "worker-0", "b": "worker-1", "d": "worker-2"}
    assert grouped.jobs.keys() == {"team/g1", "team/u-c"}


def test_after_a_restart_a_group_whose_pods_have_ended_and_are_going_is_over() -> None:
    """Ended pods keep terminating where their node is lost (simulation seed 313)."""
    grouped = Grouped()
    for name in "abc":
        item = in_group(COSCHEDULING, name, node="n1") | {"status": {"phase": "Succeeded"}}
        item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        grouped.take(grouped.translator.events(PODS, {"type": "ADDED", "object": item}))
    assert grouped.jobs.keys() == {"team/g1"}
    assert grouped.gang.finished


def test_a_pod_beyond_the_minimum_that_goes_is_no_gang_of_one_any_more() -> None:
    """The group was deleted before the pod (simulation seed 700)."""
    grouped = Grouped()
    for name in "abcd":
        grouped.sees(name, node="n1")
    assert grouped.jobs.keys() == {"team/g1", "team/u-d"}
    going = in_group(COSCHEDULING, "d", node="n1")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    grouped.take(grouped.translator.events(PODS, {"type": "MODIFIED", "object": going}))
    assert grouped.jobs.keys() == {"team/g1"}
    grouped.change("DELETED")
    grouped.loses("d")
    assert not grouped.jobs


def test_each_pod_of_a_group_that_needs_one_goes_by_itself() -> None:
    grouped = Grouped(least=1)
    for name in "ab":
        grouped.sees(name)
    assert grouped.jobs.keys() == {"team/g1", "team/u-b"}


def test_pods_beyond_the_minimum_wait_behind_the_members_of_their_role() -> None:
    grouped = Grouped(VOLCANO, least=3)
    grouped.sees("a", role="ps")
    for name in "bcde":
        grouped.sees(name)
    waiting = {"d": "worker-2", "e": "worker-3"}
    assert grouped.slots() == {"a": "ps-0", "b": "worker-0", "c": "worker-1"} | waiting


def test_roles_by_label_keep_their_own_size() -> None:
    grouped = Grouped(VOLCANO)
    grouped.sees("a", cpu="4", role="ps")
    grouped.sees("b")
    grouped.sees("c")
    sizes = {role.name: (role.replicas, role.requests["cpu"]) for role in grouped.gang.roles}
    assert sizes == {"ps": (1, 4000), "worker": (2, 1000)}


def test_the_minimum_counts_at_the_start_and_nobody_is_deleted_for_it_later() -> None:
    grouped = Grouped()
    for name in "abc":
        grouped.sees(name, node="n1")
    assert (grouped.gang.size, grouped.gang.replaced) == (3, False)
    grouped.loses("b")
    assert grouped.gang.size == 2
    assert grouped.slots() == {"a": "worker-0", "c": "worker-1"}
    grouped.sees("d")
    assert grouped.gang.size == 3


def test_one_role_has_one_set_of_constraints() -> None:
    grouped = Grouped()
    grouped.sees("a")
    grouped.sees("b", nodeSelector={"zone": "a"})
    assert "pod b: its node selector" in grouped.gang.invalid


def test_a_group_without_a_gang_leaves_its_pods_alone() -> None:
    grouped = Grouped(NATIVE)
    item = group(NATIVE) | {"spec": {"schedulingPolicy": {"basic": {}}}}
    grouped.take(grouped.translator.events(NATIVE.resource, {"type": "MODIFIED", "object": item}))
    grouped.sees("a")
    assert grouped.pods["a"].job_uid == "team/u-a"


# -- The test below is about malformed objects. --------------------------------------------------

OBJECTS: list[tuple[Resource, Json]] = [
    *ELASTIC.values(),
    (JOBSETS, jobset()),
    (COSCHEDULING.resource, group(COSCHEDULING)),
    (NATIVE.resource, group(NATIVE)),
    (PODS, child("train-workers-1-2-abcde", 2)),
    (PODS, replica("a", "n1", "worker-0")),
    (PODS, in_group(VOLCANO, "a", role="ps")),
]


@pytest.mark.parametrize("new", [None, [], [{}], {}, "", "x", -1, 10**30], ids=repr)
@pytest.mark.parametrize(
    ("resource", "item"), OBJECTS, ids=lambda value: str(value) if isinstance(value, Resource) else ""
)
def test_every_field_replaced_in_turn_never_raises(resource: Resource, item: Json, new: Any) -> None:
    ours = Translator("kohort")
    for other, its in OBJECTS:
        ours.events(other, {"type": "ADDED", "object": copy.deepcopy(its)})
    for way in places(item):
        ours.events(resource, {"type": "MODIFIED", "object": grafted(item, way, new)})
        ours.events(resource, {"type": "DELETED", "object": grafted(item, way, new)})
