"""API objects become facts; a malformed object is refused by its name and does not affect others."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.kube.api import MALFORMED, NODES, PODS, TFJOBS, Resource
from extender.kube.translate import Translator
from policy.cluster.constraints import ANYWHERE, Constraints, Taint, Toleration
from policy.cluster.events import Event, JobGone, JobSeen, NodeGone, NodeSeen, PodGone, PodSeen
from policy.cluster.job import WORKER, Job, Role, Slot
from policy.cluster.node import Node
from policy.cluster.pod import Phase, Pod
from policy.cluster.resources import BANDWIDTH, Resources

Json = dict[str, Any]
OURS = Translator("kohort")
BORN = "2026-11-21T09:00:00Z"
BORN_AT = 1795251600.0
MIN, MAX, UTILITY, RELEASED = (f"kohort.dev/{name}" for name in ("min-workers", "max-workers", "utility", "released"))


def replica(replicas: Any = 1, cpu: str = "1", scheduler: Any = "kohort", **spec: Any) -> Json:
    container = {"name": "tensorflow", "image": "mnist:1", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {
        "replicas": replicas,
        "restartPolicy": "Never",
        "template": {"metadata": {}, "spec": {"schedulerName": scheduler, "containers": [container], **spec}},
    }


def tfjob(notes: Any = None, status: Any = None, run: Any = None, **replicas: Any) -> Json:
    """Return a TFJob of one ps and three workers, in the form of `kubectl get -o json`."""
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {
            "name": "mnist", "namespace": "team-a", "uid": "j1", "resourceVersion": "41", "generation": 1,
            "creationTimestamp": BORN, "annotations": notes,
        },
        "spec": {
            "enableDynamicWorker": True, "runPolicy": run,
            "tfReplicaSpecs": replicas or {"PS": replica(1, "2"), "Worker": replica(3)},
        },
        "status": status,
    }  # fmt: skip


def seen(item: Any, translator: Translator = OURS) -> Job:
    """Return the job that the translator makes of the object."""
    (event,) = translator.events(TFJOBS, {"type": "ADDED", "object": item})
    assert isinstance(event, JobSeen)
    return event.job


def test_whether_a_job_states_its_utility() -> None:
    assert seen(tfjob({"kohort.dev/utility": "3"})).utility_stated
    assert not seen(tfjob()).utility_stated


def asked(cpu: int) -> Resources:
    return Resources({"cpu": cpu, "memory": 2**30, "pods": 1})


PLAIN = Job(
    uid="team-a/j1", namespace="team-a", name="mnist", kind="TFJob", arrival=BORN_AT,
    roles=(Role("ps", 1, asked(2000)), Role(WORKER, 3, asked(1000))),
    min_workers=3, max_workers=3, min_stated=False, max_stated=False, utility_stated=False, suspends=True,
    holds_notes=True, keeps_pods=True, version=41,
)  # fmt: skip


def test_a_plain_job_is_a_rigid_gang() -> None:
    assert seen(tfjob()) == PLAIN


BOUNDS: dict[str, tuple[Json, tuple[int, int, bool]]] = {
    "no word of it": (tfjob(), (3, 3, False)),
    "both bounds": (tfjob({MIN: "1", MAX: "5"}), (1, 5, True)),
    "only a minimum": (tfjob({MIN: "2"}), (2, 3, True)),
    "only a maximum": (tfjob({MAX: "4"}), (3, 4, True)),
    "the bounds are what it asks for": (tfjob({MIN: "3", MAX: "3"}), (3, 3, False)),
    "replicas below the minimum, until the operator follows": (tfjob({MIN: "4", MAX: "8"}), (4, 8, True)),
    "replicas beyond the maximum, to be taken back": (tfjob({MIN: "1", MAX: "2"}), (1, 2, True)),
    "minAvailable counts ps too": (tfjob(run={"schedulingPolicy": {"minAvailable": 3}}), (2, 3, True)),
    "minAvailable of all": (tfjob(run={"schedulingPolicy": {"minAvailable": 4}}), (3, 3, False)),
    "annotations win over minAvailable": (tfjob({MIN: "1"}, run={"schedulingPolicy": {"minAvailable": 4}}),
                                          (1, 3, True)),
    "nulls on the way to minAvailable": (tfjob(run={"schedulingPolicy": None}), (3, 3, False)),
    "minAvailable null": (tfjob(run={"schedulingPolicy": {"minAvailable": None}}), (3, 3, False)),
    "replicas null is one": (tfjob(Worker=replica(None)), (1, 1, False)),
    "no workers at all": (tfjob(PS=replica(2)), (0, 0, False)),
    "no workers, and bounds that say so": (tfjob({MIN: "0", MAX: "0"}, PS=replica(2)), (0, 0, False)),
    "the most that is allowed": (tfjob({MAX: "10000"}), (3, 10000, True)),
}  # fmt: skip


@pytest.mark.parametrize(("item", "want"), BOUNDS.values(), ids=BOUNDS.keys())
def test_bounds(item: Json, want: tuple[int, int, bool]) -> None:
    job = seen(item)
    assert (job.invalid, job.min_workers, job.max_workers, job.elastic) == ("", *want)


def test_bounds_may_stand_at_the_workers_template() -> None:
    worker = replica(3)
    worker["template"]["metadata"] = {"annotations": {MIN: "1", MAX: "9"}}
    assert (seen(tfjob(Worker=worker)).min_workers, seen(tfjob(Worker=worker)).max_workers) == (1, 9)
    assert seen(tfjob({MIN: "2"}, Worker=worker)).min_workers == 2


STATED: dict[str, tuple[Json, tuple[bool, bool]]] = {
    "both": (tfjob({MIN: "1", MAX: "5"}), (True, True)),
    "only a minimum": (tfjob({MIN: "1"}), (True, False)),
    "only a maximum": (tfjob({MAX: "5"}), (False, True)),
    "minAvailable": (tfjob(run={"schedulingPolicy": {"minAvailable": 3}}), (True, False)),
    "no workers, so none to state": (tfjob(PS=replica(2)), (True, True)),
}


@pytest.mark.parametrize(("item", "want"), STATED.values(), ids=STATED.keys())
def test_a_bound_that_follows_from_the_replicas_is_told_from_one_that_is_stated(
    item: Json, want: tuple[bool, bool]
) -> None:
    assert (seen(item).min_stated, seen(item).max_stated) == want


def test_every_role_is_read() -> None:
    job = seen(tfjob(**{name: replica(1) for name in ("PS", "Worker", "Chief", "Master", "Evaluator")}))
    assert {role.name for role in job.roles} == {"ps", "worker", "chief", "master", "evaluator"}
    assert job.slots(1)[-1] == Slot(WORKER, 0)
    assert job.size == 5


def conditions(*kinds: str, status: str = "True") -> Json:
    return {"conditions": [{"type": kind, "status": status} for kind in kinds]}


SUSPEND: Json = {"f:spec": {"f:runPolicy": {"f:suspend": {}}}}
OUR_MARK: Json = {"f:metadata": {"f:annotations": {f"f:{RELEASED}": {}}}}


def marked(*writers: Json) -> Json:
    """Return a suspended job with Kohort's mark of a release.

    writers: the managed fields of each field manager.
    """
    item = tfjob({RELEASED: "true"}, run={"suspend": True})
    item["metadata"]["managedFields"] = [{"manager": str(n), "fieldsV1": own} for n, own in enumerate(writers)]
    return item


STATES: dict[str, tuple[Json, dict[str, bool]]] = {
    "created": (tfjob(status=conditions("Created", "Running")), {}),
    "succeeded": (tfjob(status=conditions("Running", "Succeeded")), {"finished": True}),
    "failed": (tfjob(status=conditions("Failed")), {"finished": True}),
    "not failed after all": (tfjob(status=conditions("Failed", status="False")), {}),
    "suspended": (tfjob(run={"suspend": True}), {"suspended": True}),
    "suspended by us": (marked(), {"released": True}),
    "our mark without a suspension": (tfjob({RELEASED: "true"}, run={"suspend": False}), {}),
    "suspended by us, and the API says so": (marked(SUSPEND | OUR_MARK, {}), {"released": True}),
    "suspended by a user since": (marked(OUR_MARK, SUSPEND), {"suspended": True}),
    "suspended by us and a user": (marked(SUSPEND | OUR_MARK, SUSPEND), {"suspended": True}),
    "suspend as text is not suspended": (tfjob(run={"suspend": "true"}), {}),
    "cleans its running pods": (tfjob(run={"cleanPodPolicy": "Running"}), {"keeps_pods": False}),
    "cleans all pods": (tfjob(run={"cleanPodPolicy": "All"}), {"keeps_pods": False}),
    "keeps its pods": (tfjob(run={"cleanPodPolicy": "None"}), {}),
    "clean-up null is the operator's None": (tfjob(run={"cleanPodPolicy": None}), {}),
    "conditions that are none": (tfjob(status={"conditions": ["Failed", None, {"type": ["Failed"]}]}), {}),
}


@pytest.mark.parametrize(("item", "want"), STATES.values(), ids=STATES.keys())
def test_states(item: Json, want: dict[str, bool]) -> None:
    job = seen(item)
    got = {name: getattr(job, name) for name in ("finished", "suspended", "released", "deleting", "keeps_pods")}
    plain = dict.fromkeys(("finished", "suspended", "released", "deleting"), False)
    assert got == plain | {"keeps_pods": True} | want


def test_deletion() -> None:
    item = tfjob()
    item["metadata"]["deletionTimestamp"] = BORN
    assert seen(item).deleting
    assert OURS.events(TFJOBS, {"type": "DELETED", "object": item}) == [JobGone("team-a/j1")]


def at(path: str, value: Any) -> Json:
    """Return the plain job with one field, given by its dotted path, changed."""
    item = tfjob()
    *way, last = path.split(".")
    place = item
    for name in way:
        place = place[name]
    place[last] = value
    return item


DEEP: Any = []
for _ in range(400):
    DEEP = [DEEP]
SPECS = "spec.tfReplicaSpecs"
POD_AT = f"{SPECS}.Worker.template.spec"
CPU = f"{POD_AT}.containers[0].resources.requests.cpu"
LEAST = "spec.runPolicy.schedulingPolicy.minAvailable"
COUNT = "a whole number from 0 to 10000"
WRONG: dict[str, tuple[Json, str, str]] = {
    "min: a word": (tfjob({MIN: "many"}), MIN, COUNT),
    "min: empty": (tfjob({MIN: ""}), MIN, COUNT),
    "min: null": (tfjob({MIN: None}), MIN, COUNT),
    "min: zero": (tfjob({MIN: "0"}), MIN, "1 or more"),
    "min: negative": (tfjob({MIN: "-1"}), MIN, COUNT),
    "min: a fraction": (tfjob({MIN: "1.5"}), MIN, COUNT),
    "min: NaN": (tfjob({MIN: "NaN"}), MIN, COUNT),
    "min: 10^9": (tfjob({MIN: "1000000000"}), MIN, COUNT),
    "min: an exponent": (tfjob({MIN: "1e3"}), MIN, COUNT),
    "min: digits of another script": (tfjob({MIN: "٣"}), MIN, COUNT),
    "min: an underscore": (tfjob({MIN: "1_0"}), MIN, COUNT),
    "min: blanks around it": (tfjob({MIN: " 3 "}), MIN, COUNT),
    "min: a sign": (tfjob({MIN: "+3"}), MIN, COUNT),
    "min: a huge string": (tfjob({MIN: "9" * 1_000_000}), MIN, COUNT),
    "min: a list": (tfjob({MIN: ["3"]}), MIN, COUNT),
    "min: a mapping": (tfjob({MIN: {"value": 3}}), MIN, COUNT),
    "max: a word": (tfjob({MAX: "all"}), MAX, COUNT),
    "max: 10^9": (tfjob({MAX: "1000000000"}), MAX, COUNT),
    "max: one beyond": (tfjob({MAX: "10001"}), MAX, COUNT),
    "max: hexadecimal": (tfjob({MAX: "0x10"}), MAX, COUNT),
    "min beyond max": (tfjob({MIN: "5", MAX: "4"}), MAX, f"5 or more, which is {MIN}"),
    "max below what the job asks for at least": (tfjob({MAX: "2"}), MAX, "3 or more, which is the minimum that"),
    "max: zero": (tfjob({MIN: "1", MAX: "0"}), MAX, "1 or more"),
    "a minimum without workers": (tfjob({MIN: "1"}, PS=replica(2)), MIN, "0, because the job has no Worker role"),
    "a maximum without workers": (tfjob({MAX: "3"}, PS=replica(2)), MAX, "0, because the job has no Worker role"),
    "a word as maximum without workers": (tfjob({MAX: "x"}, PS=replica(2)), MAX, COUNT),
    "utility: a word": (tfjob({UTILITY: "high"}), UTILITY, "a number above 0"),
    "utility: zero": (tfjob({UTILITY: "0"}), UTILITY, "a number above 0"),
    "utility: negative": (tfjob({UTILITY: "-1"}), UTILITY, "a number above 0"),
    "utility: NaN": (tfjob({UTILITY: "nan"}), UTILITY, "a number above 0"),
    "utility: infinite": (tfjob({UTILITY: "inf"}), UTILITY, "at most 1000000"),
    "utility: too much": (tfjob({UTILITY: "1e7"}), UTILITY, "at most 1000000"),
    "utility: an underscore": (tfjob({UTILITY: "1_0"}), UTILITY, "a number above 0"),
    "utility: another script": (tfjob({UTILITY: "٣"}), UTILITY, "a number above 0"),
    "utility: empty": (tfjob({UTILITY: ""}), UTILITY, "a number above 0"),
    "utility: a list": (tfjob({UTILITY: [1]}), UTILITY, "a number above 0"),
    "utility: a boolean": (tfjob({UTILITY: True}), UTILITY, "a number above 0"),
    "annotations as a list": (tfjob([MIN]), "metadata.annotations", "a mapping"),
    "annotations as text": (tfjob("x"), "metadata.annotations", "a mapping"),
    "the template's annotations as a list": (
        at(f"{SPECS}.Worker.template.metadata", {"annotations": []}),
        f"{SPECS}.Worker.template.metadata.annotations", "a mapping"),
    "the template's metadata as text": (
        at(f"{SPECS}.Worker.template.metadata", "x"), f"{SPECS}.Worker.template.metadata", "a mapping"),
    "replicas: 10^9": (tfjob(Worker=replica(10**9)), f"{SPECS}.Worker.replicas", COUNT),
    "replicas: beyond any integer": (tfjob(Worker=replica(10**5000)), f"{SPECS}.Worker.replicas", COUNT),
    "replicas: negative": (tfjob(Worker=replica(-1)), f"{SPECS}.Worker.replicas", COUNT),
    "replicas: a float": (tfjob(Worker=replica(3.0)), f"{SPECS}.Worker.replicas", COUNT),
    "replicas: NaN": (tfjob(Worker=replica(float("nan"))), f"{SPECS}.Worker.replicas", COUNT),
    "replicas: text": (tfjob(Worker=replica("3")), f"{SPECS}.Worker.replicas", COUNT),
    "replicas: a boolean": (tfjob(Worker=replica(True)), f"{SPECS}.Worker.replicas", COUNT),
    "replicas: a list": (tfjob(Worker=replica([3])), f"{SPECS}.Worker.replicas", COUNT),
    "replicas of the ps": (tfjob(PS=replica(-3), Worker=replica(1)), f"{SPECS}.PS.replicas", COUNT),
    "no worker asked for": (tfjob(PS=replica(1), Worker=replica(0)), f"{SPECS}.Worker.replicas", "1 or more"),
    "nobody asked for": (tfjob(PS=replica(0)), f"{SPECS}.*.replicas", "at least one replica"),
    "an unknown role": (tfjob(Worker=replica(1), Gardener=replica(1)), f"{SPECS}.Gardener", "PS, Worker, Chief"),
    "a role in small letters": (tfjob(worker=replica(1)), f"{SPECS}.worker", "PS, Worker, Chief"),
    "a role as text": (tfjob(PS="one", Worker=replica(1)), f"{SPECS}.PS", "a mapping"),
    "a role as a list": (tfjob(PS=[replica(1)], Worker=replica(1)), f"{SPECS}.PS", "a mapping"),
    "a role that is null": (
        tfjob(PS=None, Worker=replica(1)), f"{SPECS}.PS.template.spec.schedulerName", "kohort, as in"),
    "a template as a list": (tfjob(PS={"template": []}, Worker=replica(1)), f"{SPECS}.PS.template", "a mapping"),
    "a template's spec as text": (
        tfjob(PS={"template": {"spec": "x"}}, Worker=replica(1)), f"{SPECS}.PS.template.spec", "a mapping"),
    "another scheduler for the ps": (
        tfjob(PS=replica(scheduler="default-scheduler"), Worker=replica(1)),
        f"{SPECS}.PS.template.spec.schedulerName", "kohort, as in the job's other roles"),
    "no scheduler for the workers": (
        tfjob(PS=replica(), Worker=replica(scheduler=None)), f"{POD_AT}.schedulerName", "kohort, as in"),
    "a scheduler that is a list": (
        tfjob(PS=replica(), Worker=replica(scheduler=["kohort"])), f"{POD_AT}.schedulerName", "kohort, as in"),
    "minAvailable beyond all": (
        tfjob(run={"schedulingPolicy": {"minAvailable": 5}}), LEAST, "2 to 4"),
    "minAvailable without a worker": (
        tfjob(run={"schedulingPolicy": {"minAvailable": 1}}), LEAST, "2 to 4"),
    "minAvailable: negative": (
        tfjob(run={"schedulingPolicy": {"minAvailable": -1}}), LEAST, "whole"),
    "minAvailable: text": (
        tfjob(run={"schedulingPolicy": {"minAvailable": "4"}}), LEAST, "whole"),
    "minAvailable: 10^9": (
        tfjob(run={"schedulingPolicy": {"minAvailable": 10**9}}), LEAST, "who"),
    "minAvailable wrong, no workers": (
        tfjob(run={"schedulingPolicy": {"minAvailable": 9}}, PS=replica(2)),
        LEAST, "2 to 2"),
    "schedulingPolicy as a list": (
        tfjob(run={"schedulingPolicy": []}), "spec.runPolicy.schedulingPolicy", "a mapping"),
    "runPolicy as text": (tfjob(run="x"), "spec.runPolicy", "a mapping"),
    "cpu: a word": (tfjob(Worker=replica(cpu="lots")), CPU, "a Kubernetes quantity"),
    "cpu: negative": (tfjob(Worker=replica(cpu="-1")), CPU, "0 or more"),
    "cpu: NaN": (tfjob(Worker=replica(cpu="NaN")), CPU, "a Kubernetes quantity"),
    "cpu: infinite": (tfjob(Worker=replica(cpu="Infinity")), CPU, "a Kubernetes quantity"),
    "cpu: beyond 64 bits": (tfjob(Worker=replica(cpu="1e300")), CPU, "at most"),
    "cpu: an exponent that would fill the memory": (tfjob(Worker=replica(cpu="1e999999999")), CPU, "a Kubernetes"),
    "cpu: a huge string": (tfjob(Worker=replica(cpu="1" * 1_000_000)), CPU, "a Kubernetes quantity"),
    "containers as a mapping": (tfjob(Worker=replica(containers={})), f"{POD_AT}.containers", "a list"),
    "a container that is text": (tfjob(Worker=replica(containers=["x"])), f"{POD_AT}.containers[0]", "a mapping"),
    "containers nested without end": (tfjob(Worker=replica(containers=DEEP)), f"{POD_AT}.containers[0]", "a mapping"),
    "nodeSelector as text": (tfjob(Worker=replica(nodeSelector="x")), f"{POD_AT}.nodeSelector", "a mapping"),
    "tolerations as a mapping": (tfjob(Worker=replica(tolerations={})), f"{POD_AT}.tolerations", "a list"),
    "affinity as a list": (tfjob(Worker=replica(affinity=[])), f"{POD_AT}.affinity", "a mapping"),
    "hostNetwork as text": (tfjob(Worker=replica(hostNetwork="yes")), f"{POD_AT}.hostNetwork", "true or false"),
    "a gate that is text": (tfjob(Worker=replica(schedulingGates=["x"])), f"{POD_AT}.schedulingGates[0]", "a mapping"),
    "overhead as a list": (tfjob(Worker=replica(overhead=["cpu"])), f"{POD_AT}.overhead", "a mapping"),
}  # fmt: skip


@pytest.mark.parametrize(("item", "field", "allowed"), WRONG.values(), ids=WRONG.keys())
def test_a_malformed_job_names_field_value_and_what_is_allowed(item: Json, field: str, allowed: str) -> None:
    before = copy.deepcopy(item)
    job = seen(item)
    assert job.invalid.startswith(f"{field}: ")
    assert f" is not allowed; allowed: {allowed}" in job.invalid or allowed in job.invalid.split("; allowed: ")[1]
    assert len(job.invalid) < 500
    assert (job.uid, job.key, job.arrival, job.roles, job.max_workers) == ("team-a/j1", "team-a/mnist", BORN_AT, (), 0)
    assert item == before
    assert seen(tfjob()) == PLAIN, "the next job is read as ever"


def test_the_refused_value_is_shown() -> None:
    assert seen(tfjob({MIN: "many"})).invalid == f"{MIN}: 'many' is not allowed; allowed: {COUNT}"


def test_there_are_enough_malformed_jobs() -> None:
    assert len(WRONG) >= 60


def test_what_a_plan_cannot_promise_is_kept_by_role() -> None:
    job = seen(tfjob(PS=replica(), Worker=replica(resourceClaims=[{"name": "gpu"}], nodeName="n1")))
    assert (job.invalid, {role.name: role.unsupported for role in job.roles}) == (
        "", {"ps": (), "worker": ("resourceClaims", "nodeName")},
    )  # fmt: skip


NOT_OURS: dict[str, Json] = {
    "another scheduler": tfjob(Worker=replica(scheduler="volcano")),
    "no scheduler named": tfjob(Worker=replica(scheduler=None)),
    "an empty scheduler": tfjob(Worker=replica(scheduler="")),
    "a scheduler that is a list": tfjob(Worker=replica(scheduler=["kohort"])),
    "no spec": tfjob() | {"spec": None},
    "a spec that is text": tfjob() | {"spec": "x"},
    "replicas that are a list": at("spec.tfReplicaSpecs", [replica()]),
}


@pytest.mark.parametrize("item", NOT_OURS.values(), ids=NOT_OURS.keys())
def test_a_job_that_did_not_opt_in_is_nothing_to_us_also_when_it_was_ours(item: Json) -> None:
    change, ours = {"type": "MODIFIED", "object": item}, Translator("kohort")
    assert ours.events(TFJOBS, change) == []
    assert ours.events(TFJOBS, {"type": "ADDED", "object": tfjob()}) != []
    assert ours.events(TFJOBS, change) == [JobGone("team-a/j1")]
    assert ours.events(TFJOBS, change) == []


def test_a_job_that_could_not_be_decoded_is_invalid_and_not_gone() -> None:
    item = {"metadata": {"namespace": "team-a", "name": "mnist", "uid": "j1"}, MALFORMED: "invalid utf-8"}
    assert seen(item).invalid == "the object cannot be read: invalid utf-8"


# -- The tests below translate pods. -------------------------------------------------------------


def member(name: str = "mnist-worker-2", role: Any = "worker", index: Any = "2", **meta: Any) -> Json:
    """Return a pod as the training operator makes it."""
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "mnist", "uid": "j1", "controller": True}
    labels = {"training.kubeflow.org/replica-type": role, "training.kubeflow.org/replica-index": index}
    return {
        "metadata": {
            "name": name, "namespace": "team-a", "uid": "p1", "resourceVersion": "7", "creationTimestamp": BORN,
            "labels": labels, "ownerReferences": [owner], "annotations": None, **meta,
        },
        "spec": {
            "schedulerName": "kohort",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        },
        "status": {"phase": "Pending"},
    }  # fmt: skip


MEMBER = Pod(
    uid="p1", namespace="team-a", name="mnist-worker-2", requests=asked(1000), job_uid="team-a/j1",
    slot=Slot(WORKER, 2), owner="mnist", opted_in=True, places=ANYWHERE, since=BORN_AT, version=7,
)  # fmt: skip


def pods(item: Any, change: str = "ADDED") -> list[Event]:
    return OURS.events(PODS, {"type": change, "object": item})


def test_a_member() -> None:
    assert pods(member()) == [PodSeen(MEMBER)]


def owned(**fields: Any) -> list[Json]:
    owner: Json = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "mnist", "uid": "j1", "controller": True}
    return [owner | fields]


J1 = "team-a/j1"
MEMBERSHIP: dict[str, tuple[Json, str, Slot | None]] = {
    "ps": (member("mnist-ps-0", "ps", "0"), J1, Slot("ps", 0)),
    "a role in capitals is the operator's older spelling": (member("mnist-worker-2", "Worker"), J1, Slot(WORKER, 2)),
    "two digits": (member("mnist-worker-12", "worker", "12"), J1, Slot(WORKER, 12)),
    "name that does not match the index": (member("mnist-worker-3"), J1, None),
    "name of another job": (member("cifar-worker-2"), J1, None),
    "name that does not match the role": (member("mnist-ps-2"), J1, None),
    "a leading zero would claim another's slot": (member("mnist-worker-02", index="02"), J1, None),
    "an index of another script": (member("mnist-worker-٢", index="٢"), J1, None),
    "a superscript index": (member("mnist-worker-²", index="²"), J1, None),
    "a negative index": (member("mnist-worker--1", index="-1"), J1, None),
    "a fraction": (member("mnist-worker-1.0", index="1.0"), J1, None),
    "an index of 10^9": (member("mnist-worker-1000000000", index="1000000000"), J1, None),
    "an index that is a number": (member(index=2), J1, None),
    "an index that is null": (member(index=None), J1, None),
    "an empty index": (member("mnist-worker-", index=""), J1, None),
    "a role that is null": (member("mnist--2", role=None), J1, None),
    "a role that is a list": (member(role=["worker"]), J1, None),
    "no labels": (member(labels=None), J1, None),
    "labels as a list": (member(labels=["worker"]), J1, None),
    "an owner in another namespace is not to be had": (member(namespace="team-b"), "team-b/j1", Slot(WORKER, 2)),
    "an owner of another kind": (member(ownerReferences=owned(kind="XGBoostJob")), "", None),
    "a foreign API group": (member(ownerReferences=owned(apiVersion="evil.org/v1")), "", None),
    "a group that begins like ours": (member(ownerReferences=owned(apiVersion="kubeflow.org.evil/v1")), "", None),
    "a kind that is a list": (member(ownerReferences=owned(kind=["TFJob"])), "", None),
    "an owner that does not control": (member(ownerReferences=owned(controller=False)), "team-a/p1", Slot(WORKER, 0)),
    "control as text": (member(ownerReferences=owned(controller="yes")), "team-a/p1", Slot(WORKER, 0)),
    "an owner that is text": (member(ownerReferences=["TFJob"]), "team-a/p1", Slot(WORKER, 0)),
    "owners as a mapping": (member(ownerReferences={}), "team-a/p1", Slot(WORKER, 0)),
    "forged labels without an owner": (member(ownerReferences=None), "team-a/p1", Slot(WORKER, 0)),
    "the second owner controls": (
        member(ownerReferences=[{"kind": "X", "controller": None}, *owned()]), J1, Slot(WORKER, 2)),
}  # fmt: skip


@pytest.mark.parametrize(("item", "job_uid", "slot"), MEMBERSHIP.values(), ids=MEMBERSHIP.keys())
def test_membership(item: Json, job_uid: str, slot: Slot | None) -> None:
    pod = pods(item)[-1]
    assert isinstance(pod, PodSeen)
    assert (pod.pod.job_uid, pod.pod.slot, pod.pod.opted_in) == (job_uid, slot, True)


def changed(*, spec: Json | None = None, status: Any = None, **meta: Any) -> Json:
    item = member(**meta)
    return item | {"spec": item["spec"] | (spec or {}), "status": {"phase": "Pending"} if status is None else status}


def scheduled(status: str, reason: str = "", message: str = "") -> Json:
    return {"conditions": [{"type": "PodScheduled", "status": status, "reason": reason, "message": message}]}


EXISTS = {"operator": "Exists"}
PODS_SEEN: dict[str, tuple[Json, dict[str, Any]]] = {
    "bound": (changed(spec={"nodeName": "n1"}), {"node": "n1"}),
    "running": (changed(status={"phase": "Running"}), {"phase": Phase.RUNNING}),
    "unknown: its room is not free": (changed(status={"phase": "Unknown"}), {"phase": Phase.RUNNING}),
    "a phase that is a list": (changed(status={"phase": ["Failed"]}), {}),
    "succeeded": (changed(status={"phase": "Succeeded"}), {"phase": Phase.SUCCEEDED}),
    "failed": (changed(status={"phase": "Failed"}), {"phase": Phase.FAILED}),
    "status null": (member() | {"status": None}, {}),
    "being deleted": (changed(deletionTimestamp=BORN), {"terminating": True}),
    "kept by a finalizer": (
        changed(deletionTimestamp=BORN, finalizers=["example.com/backup", None]),
        {"terminating": True, "finalizers": ("example.com/backup",)}),
    "with a finalizer, not being deleted": (changed(finalizers=["example.com/backup"]), {}),
    "gated": (changed(spec={"schedulingGates": [{"name": "kohort.dev/admission"}]}), {"gated": True}),
    "gated by others": (changed(spec={"schedulingGates": [{"name": "x"}, None, "kohort.dev/admission"]}),
                        {"unchecked": ("schedulingGates",), "gates": ("x",)}),
    "gated by Kohort and by others": (
        changed(spec={"schedulingGates": [{"name": "z"}, {"name": "kohort.dev/admission"}, {"name": "y"}, 7]}),
        {"gated": True, "unchecked": ("schedulingGates",), "gates": ("y", "z")}),
    "a toleration that admission has added": (
        changed(spec={"tolerations": [EXISTS | {"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}),
        {"places": Constraints(tolerations=(Toleration("nvidia.com/gpu", "Exists", "", "NoSchedule"),))}),
    "a selector that admission has added": (
        changed(spec={"nodeSelector": {"pool": "gpu"}}), {"places": Constraints(node_selector=(("pool", "gpu"),))}),
    "those that every pod gets": (changed(spec={"tolerations": [
        EXISTS | {"key": f"node.kubernetes.io/{key}", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")]}), {}),
    "places that cannot be read": (changed(spec={"nodeSelector": [1]}), {"places": None}),
    "refused": (changed(status=scheduled("False", "Unschedulable", "0/3")), {"refused": True, "refusal": "0/3"}),
    "gated is not refused": (changed(status=scheduled("False", "SchedulingGated")), {}),
    "a long refusal is cut": (changed(status=scheduled("False", "Unschedulable", "x" * 9999)),
                              {"refused": True, "refusal": "x" * 1024}),
    "a message that is a list": (changed(status=scheduled("False", "Unschedulable") | {"message": []}),
                                 {"refused": True}),
    "bound under a plan, woken by another": (
        changed(annotations={"kohort.dev/plan": "7-1", "kohort.dev/wake": "8-1"}), {"plan": "7-1", "woken": "8-1"}),
    "annotations that are numbers": (changed(annotations={"kohort.dev/plan": 7, "kohort.dev/wake": None}), {}),
    "nominated": (changed(status={"nominatedNodeName": "n2"}), {"nominated": "n2"}),
    "a priority": (changed(spec={"priority": -10}), {"priority": -10}),
    "a priority beyond 64 bits": (changed(spec={"priority": 10**400}), {}),
    "a priority that is NaN": (changed(spec={"priority": float("nan")}), {}),
    "a version that is none": (changed(resourceVersion="seven"), {"version": 0}),
    "a version of a million digits": (changed(resourceVersion="9" * 1_000_000), {"version": 0}),
    "no time of creation": (changed(creationTimestamp=None), {"since": 0.0}),
    "a time that is none": (changed(creationTimestamp="yesterday"), {"since": 0.0}),
    "a time at the end of time": (changed(creationTimestamp="9999-12-31T23:59:59+00:00"), {"since": 253402300799.0}),
    "a node name that is a number": (changed(spec={"nodeName": 7}), {}),
    "quantities that cannot be read": (
        changed(spec={"containers": [{"resources": {"requests": {"cpu": "NaN"}}}]}),
        {"requests": Resources({"pods": 1}), "unchecked": ("requests that cannot be read",)}),
}  # fmt: skip


@pytest.mark.parametrize(("item", "want"), PODS_SEEN.values(), ids=PODS_SEEN.keys())
def test_pods(item: Json, want: dict[str, Any]) -> None:
    (event,) = pods(item)
    assert isinstance(event, PodSeen)
    fields = MEMBER.__slots__
    assert {name: getattr(event.pod, name) for name in fields} == {n: getattr(MEMBER, n) for n in fields} | want


def test_a_pod_of_another_scheduler_only_takes_room() -> None:
    item = changed(spec={"schedulerName": "default-scheduler", "nodeName": "n1"})
    pod = Pod("p1", "team-a", "mnist-worker-2", asked(1000), node="n1", since=BORN_AT, version=7)
    assert pods(item) == [PodSeen(pod)]
    assert pods(item, "DELETED") == [PodGone("p1")]


def lone(**spec: Any) -> Json:
    return changed(spec=spec, name="solo", ownerReferences=None, labels=None)


def test_a_pod_without_an_owner_is_a_gang_of_one_and_goes_with_it() -> None:
    job = Job(
        uid="team-a/p1", namespace="team-a", name="solo", kind="Pod", arrival=BORN_AT,
        roles=(Role(WORKER, 1, asked(1000)),), min_workers=1, max_workers=1, keeps_pods=True, version=7,
        utility_stated=False, replaced=False,
    )  # fmt: skip
    seen_job, seen_pod = pods(lone())
    assert seen_job == JobSeen(job)
    assert isinstance(seen_pod, PodSeen)
    assert (seen_pod.pod.job_uid, seen_pod.pod.slot) == (job.uid, Slot(WORKER, 0))
    assert pods(lone(), "DELETED") == [PodGone("p1"), JobGone("team-a/p1")]


def test_a_gang_of_one_goes_also_when_only_its_name_is_left() -> None:
    pods(lone())
    vanished = {"metadata": {"namespace": "team-a", "name": "solo", "uid": "p1"}}
    assert pods(vanished, "DELETED") == [PodGone("p1"), JobGone("team-a/p1")]


def test_a_member_that_is_deleted_leaves_its_job() -> None:
    assert pods(member(), "DELETED") == [PodGone("p1")]


LONE: dict[str, tuple[Json, dict[str, Any]]] = {
    "ended": (lone() | {"status": {"phase": "Succeeded"}}, {"finished": True}),
    "bound: it has a node, and asked for none": (lone(nodeName="n1"), {}),
    "asks for what cannot be promised": (lone(resourceClaims=[{}]), {"unsupported": ("resourceClaims",)}),
    "malformed": (lone(tolerations={}), {"invalid": "spec.tolerations: {} is not allowed; allowed: a list"}),
}


@pytest.mark.parametrize(("item", "want"), LONE.values(), ids=LONE.keys())
def test_gangs_of_one(item: Json, want: dict[str, Any]) -> None:
    event = pods(item)[0]
    assert isinstance(event, JobSeen)
    got = {"finished": event.job.finished, "invalid": event.job.invalid, "unsupported": event.job.roles[0].unsupported}
    assert got == {"finished": False, "invalid": "", "unsupported": ()} | want


def test_a_pod_that_could_not_be_decoded_stays_what_it_was() -> None:
    item = {"metadata": {"namespace": "team-a", "name": "a", "uid": "p1"}, MALFORMED: "invalid utf-8"}
    assert pods(item, "MODIFIED") == []
    assert PodGone("p1") in pods(item, "DELETED")


# -- The tests below translate nodes. ------------------------------------------------------------


def node(spec: Any = None, status: Any = None, **meta: Any) -> Json:
    allocatable = {"cpu": "10", "memory": "32Gi", "nvidia.com/gpu": "1", "pods": "110"}
    metadata = {"name": "n1", "uid": "u1", "resourceVersion": "5", "labels": {"zone": "a"}, **meta}
    return {"metadata": metadata, "spec": spec, "status": {"allocatable": allocatable} if status is None else status}


N1 = Node(
    name="n1", allocatable=Resources({"cpu": 10000, "memory": 32 * 2**30, "nvidia.com/gpu": 1, "pods": 110}),
    uid="u1", labels={"zone": "a"}, version=5,
)  # fmt: skip
READY = {"type": "Ready", "status": "True"}
NODES_SEEN: dict[str, tuple[Json, dict[str, Any]]] = {
    "bare": (node(), {}),
    "cordoned": (node({"unschedulable": True}), {"unschedulable": True}),
    "cordoned by text is not cordoned": (node({"unschedulable": "true"}), {}),
    "not ready": (node(status={"allocatable": {}, "conditions": [READY | {"status": "Unknown"}]}),
                  {"ready": False, "allocatable": Resources()}),
    "ready": (node(status={"conditions": [READY]}), {"allocatable": Resources()}),
    "being deleted": (node(deletionTimestamp=BORN), {"ready": False}),
    "tainted": (node({"taints": [{"key": "gpu", "effect": "NoSchedule"}, None, "x"]}),
                {"taints": (Taint("gpu", "", "NoSchedule"), Taint("", "", ""), Taint("", "", ""))}),
    "taints as a mapping": (node({"taints": {}}), {}),
    "labels as a list": (node(labels=["zone"]), {"labels": {}}),
    "labels of odd kinds": (node(labels={"a": 1, "b": None, "c": "d"}), {"labels": {"c": "d"}}),
    "one quantity that cannot be read": (node(status={"allocatable": {"cpu": "ten", "memory": "1Gi"}}),
                                         {"allocatable": Resources({"cpu": 0, "memory": 2**30})}),
    "a network card": (node(status={}, annotations={BANDWIDTH: "25G"}),
                       {"allocatable": Resources({BANDWIDTH: 25_000})}),
    "a network card of nonsense": (node(status={}, annotations={BANDWIDTH: "fast"}),
                                   {"allocatable": Resources({BANDWIDTH: 0})}),
    "quantities as a list": (node(status={"allocatable": ["cpu"]}), {"allocatable": Resources()}),
}  # fmt: skip


@pytest.mark.parametrize(("item", "want"), NODES_SEEN.values(), ids=NODES_SEEN.keys())
def test_nodes(item: Json, want: dict[str, Any]) -> None:
    (event,) = OURS.events(NODES, {"type": "ADDED", "object": item})
    assert isinstance(event, NodeSeen)
    fields = N1.__slots__
    assert {name: getattr(event.node, name) for name in fields} == {n: getattr(N1, n) for n in fields} | want


def test_a_node_is_deleted() -> None:
    assert OURS.events(NODES, {"type": "DELETED", "object": {"metadata": {"name": "n1"}}}) == [NodeGone("n1")]


# -- The tests below translate malformed objects. ------------------------------------------------

NO_FACT: dict[str, tuple[Resource, Any]] = {
    "a bookmark": (PODS, {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "9"}}}),
    "an error": (PODS, {"type": "ERROR", "object": {"code": 410, "metadata": member()["metadata"]}}),
    "a type that is a list": (PODS, {"type": [], "object": member()}),
    "no object": (PODS, {"type": "ADDED", "object": None}),
    "an object that is a list": (TFJOBS, {"type": "ADDED", "object": [tfjob()]}),
    "a pod without a uid": (PODS, {"type": "ADDED", "object": member(uid="")}),
    "a pod without a namespace": (PODS, {"type": "ADDED", "object": member(namespace=None)}),
    "a pod whose name is a list": (PODS, {"type": "DELETED", "object": changed() | {"metadata": {"name": []}}}),
    "a job without a uid": (TFJOBS, {"type": "ADDED", "object": at("metadata.uid", None)}),
    "a node without a name": (NODES, {"type": "ADDED", "object": node(name="")}),
    "another resource": (Resource("", "v1", "secrets"), {"type": "ADDED", "object": tfjob()}),
}


@pytest.mark.parametrize(("resource", "change"), NO_FACT.values(), ids=NO_FACT.keys())
def test_what_is_no_fact(resource: Resource, change: Any) -> None:
    assert OURS.events(resource, change) == []


KEYS = """
metadata spec status annotations labels name namespace uid ownerReferences controller kind apiVersion replicas ports
tfReplicaSpecs Worker PS template schedulerName containers initContainers resources requests limits cpu memory priority
affinity nodeAffinity requiredDuringSchedulingIgnoredDuringExecution nodeSelectorTerms matchExpressions tolerations
runPolicy schedulingPolicy minAvailable conditions type phase allocatable taints allocatedResources overhead
containerStatuses schedulingGates creationTimestamp resourceVersion kohort.dev/malformed kohort.dev/min-workers
"""
WORDS = ["kohort", "", "1", "-1", "NaN", "1e999999999", "9" * 5000, "TFJob", "kubeflow.org/v1", "Ready", BORN, "\ud800"]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from([*WORDS, 10**400]) | st.text()
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS.split()) | st.text(), inner, max_size=6)
    ),
    max_leaves=25,
)
Graft = Callable[[Any], Any]


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value in an object, so that a test can replace each."""
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(place for key, part in inner for place in places(part, (*way, key)))]


def grafted(value: Any, way: tuple[Any, ...], new: Any) -> Any:
    if not way:
        return new
    copied = copy.copy(value)
    copied[way[0]] = grafted(value[way[0]], way[1:], new)
    return copied


OBJECTS: list[tuple[Resource, Any]] = [
    (TFJOBS, tfjob({MIN: "1", MAX: "5", UTILITY: "2"}, run={"schedulingPolicy": {"minAvailable": 2}})),
    (
        PODS,
        changed(spec={"nodeName": "n"}, status={"containerStatuses": [{"name": "c", "resources": {"requests": {}}}]}),
    ),
    (PODS, lone(tolerations=[{"key": "a"}], affinity={"podAffinity": None}, initContainers=[{"ports": [{}]}])),
    (NODES, node({"taints": [{"key": "a"}]}, {"conditions": [READY], "allocatable": {"cpu": "1"}})),
]
GRAFTS = [(resource, item, way) for resource, item in OBJECTS for way in places(item)]


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(GRAFTS), JSON, st.sampled_from(["ADDED", "MODIFIED", "DELETED"]))
def test_one_field_replaced_by_anything_never_raises(graft: tuple[Resource, Any, Any], new: Any, change: str) -> None:
    resource, item, way = graft
    hurt = grafted(item, way, new)
    OURS.events(resource, {"type": change, "object": hurt})
    if resource is PODS and isinstance(hurt, dict):
        OURS.pod_events(hurt)


@settings(max_examples=200, deadline=None)
@given(JSON, st.sampled_from([PODS, NODES, TFJOBS]))
def test_anything_at_all_never_raises(item: Any, resource: Resource) -> None:
    OURS.events(resource, {"type": "ADDED", "object": item})
    OURS.events(resource, item if isinstance(item, dict) else {"object": item})
    if isinstance(item, dict):
        OURS.pod_events(item)
        OURS.pod_events(item, gone=True)


@pytest.mark.parametrize("new", [None, [], {}, "", DEEP], ids=["null", "list", "mapping", "text", "deep"])
def test_every_field_replaced_in_turn_never_raises(new: Any) -> None:
    for resource, item, way in GRAFTS:
        OURS.events(resource, {"type": "ADDED", "object": grafted(item, way, new)})


@pytest.mark.parametrize("dynamic", [None, False, "true"])
def test_a_job_whose_operator_would_fail_it_is_rigid_and_says_why(dynamic: Any) -> None:
    item = tfjob(notes={"kohort.dev/min-workers": "1", "kohort.dev/max-workers": "5"})
    item["spec"]["enableDynamicWorker"] = dynamic
    job = seen(item)
    assert (job.min_workers, job.max_workers, job.elastic) == (3, 3, False)
    assert "enableDynamicWorker" in job.note
    item["spec"]["enableDynamicWorker"] = True
    job = seen(item)
    assert (job.min_workers, job.max_workers, job.elastic, job.note) == (1, 5, True, "")
