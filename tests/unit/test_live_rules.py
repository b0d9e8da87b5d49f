"""The checks of the live scenarios find violations (made-up observations have one fault each); their
jobs become gangs.
"""

import pytest

from extender.kube.api import PODS, Resource
from extender.kube.translate import Translator
from policy.cluster.events import JobSeen, PodSeen
from tests.controlplane import ControlPlane
from tests.e2e.jobsets import child
from tests.e2e.manifests import objects
from tests.e2e.observer import ClusterObserver, Sighting
from tests.e2e.scenario import KINDS, ORDER, Arrival, arrivals

BURST = 2.0


def seen(at: float, index: int, *, going: bool = False, phase: str = "Running", role: str = "worker") -> Sighting:
    """Return an observation of the pod with that role and index of job a."""
    return Sighting(at, "a", role, index, f"u-{role}-{index}", "n1", phase, terminating=going, gone=False)


THREE = [seen(float(index), index) for index in range(3)]


def witness(*more: Sighting) -> ClusterObserver:
    return ClusterObserver(object.__new__(ControlPlane), "team", [*THREE, *more])


LEAST = {
    "all stay": ([], 3),
    "one goes": ([seen(4, 2, going=True)], 2),
    "one goes once another has ended": ([seen(4, 0, phase="Succeeded"), seen(5, 2, going=True)], 3),
}


@pytest.mark.parametrize(("more", "want"), LEAST.values(), ids=LEAST.keys())
def test_members_are_counted_from_when_it_is_whole_until_it_ends(more: list[Sighting], want: int) -> None:
    assert witness(*more).least_bound("a", 3) == want


def test_what_goes_after_its_user_has_deleted_the_job_does_not_count() -> None:
    observer = witness(seen(4, 0, going=True))
    assert observer.taken_before_higher("a", "worker", BURST) == [(0, {1, 2})]
    observer.deleted_at["a"] = 3.5
    assert observer.least_bound("a", 3) == 3
    assert observer.taken_before_higher("a", "worker", BURST) == []


TAKEN = {
    "the highest": ([seen(4, 2, going=True)], []),
    "the two highest, seen the other way round": ([seen(4, 1, going=True), seen(5, 2, going=True)], []),
    "a lower one": ([seen(4, 1, going=True)], [(1, {2})]),
    "a lower one once the master has ended": (
        [seen(3, 0, role="master"), seen(4, 0, phase="Succeeded", role="master"), seen(4, 1, going=True)],
        [],
    ),
    "a lower one long before": ([seen(4, 1, going=True), seen(9, 2, going=True)], [(1, {2})]),
}


@pytest.mark.parametrize(("more", "want"), TAKEN.values(), ids=TAKEN.keys())
def test_workers_that_were_taken_before_higher_ones(more: list[Sighting], want: list[tuple[int, set[int]]]) -> None:
    assert witness(*more).taken_before_higher("a", "worker", BURST) == want


def test_the_short_form_has_a_stateful_set_a_deployment_and_a_group_and_the_long_one_every_kind_twice() -> None:
    short, long = ([job.kind for job in arrivals(count, 1, 5.0)] for count in (10, 22))
    assert {"StatefulSet", "Deployment", "PodGroup"} <= set(short)
    assert all(long.count(kind) >= 2 for kind in KINDS)
    assert set(ORDER) == KINDS.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_each_job_of_a_scenario_is_taken_with_its_bounds(kind: str) -> None:
    job = next(job for job in arrivals(22, 2, 5.0) if job.kind == kind)
    told = [event for item in _watched(job) for event in Translator("kohort").events(*item)]
    found = next(event.job for event in told if isinstance(event, JobSeen))
    assert found.invalid == ""
    if kind not in ("PodGroup", "VolcanoGroup"):  # a group has no job object of its own, and its pods are its members
        assert found.rigid or found.worker
        assert (found.min_workers, found.max_workers) == (0, 0) if kind == "JobSet" else (job.least, job.most)


def test_the_children_of_a_set_are_its_members() -> None:
    job = next(job for job in arrivals(22, 2, 5.0) if job.kind == "JobSet")
    ((_, owner),) = objects(job, "team")
    owner["metadata"] |= {"uid": "u-set"}
    made = child(owner, "workers")
    meta = made["spec"]["template"]["metadata"] | {"name": f"{job.name}-workers-0-1-x", "namespace": "team", "uid": "p"}
    meta["labels"] = meta["labels"] | {"batch.kubernetes.io/job-completion-index": "1"}
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": made["metadata"]["name"], "uid": "j"}
    meta["ownerReferences"] = [reference | {"controller": True}]
    pod = {"metadata": meta, "spec": made["spec"]["template"]["spec"]}
    translator = Translator("kohort")
    translator.events(*_watched(job)[0])
    (told,) = [event.pod for event in translator.events(PODS, {"type": "ADDED", "object": pod})
               if isinstance(event, PodSeen)]  # fmt: skip
    assert (told.owner, str(told.slot)) == (job.name, f"{KINDS['JobSet'].worker}-1")


def _watched(job: Arrival) -> list[tuple[Resource, dict[str, object]]]:
    """Return the job's object and then its pods, each with its resource, as a watch shows them."""
    told = list[tuple[Resource, dict[str, object]]]()
    for number, (path, item) in enumerate(objects(job, "team")):
        group, _, version = KINDS[job.kind].api.partition("/")
        own = Resource(group, version, path.rpartition("/")[2])
        item["metadata"] |= {"uid": f"u-{number}", "namespace": "team", "resourceVersion": "1"}
        told.append((PODS if item["kind"] == "Pod" else own, {"type": "ADDED", "object": item}))
    return told
