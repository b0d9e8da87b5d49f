"""The simulated world's store: revisions of objects and the history for watches."""

from lab.sim.objects import JobObject, ObjectKind, PodObject, Verb
from lab.sim.pods.worldstore import WorldStore
from lab.sim.traces import node
from tests.unit.sim.worlds import spec, words


def filled() -> WorldStore:
    store = WorldStore()
    store.put_node(node("n1", 10, 32))
    store.put_job(JobObject("j", spec(), created=0.0))
    store.put_pod(PodObject("p", "default", "a-ps-0", owner="j"))
    store.put_pod(PodObject("p", "default", "a-ps-0", owner="j", node="n1"))
    store.drop_pod("p")
    return store


def test_every_write_is_one_revision_and_one_change() -> None:
    store = filled()
    assert [change.revision for change in store.history] == [1, 2, 3, 4, 5]
    assert words(store.history) == [
        "ADDED Node n1",
        "ADDED TFJob a",
        "ADDED Pod a-ps-0",
        "MODIFIED Pod a-ps-0",
        "DELETED Pod a-ps-0",
    ]


def test_an_object_carries_the_revision_of_its_last_write_a_deleted_one_that_of_its_deletion() -> None:
    store = filled()
    assert [change.object.version for change in store.history] == [1, 2, 3, 4, 5]
    assert store.jobs["j"].version == 2


def test_a_change_keeps_the_object_as_it_was() -> None:
    pods = [change.object for change in filled().history if change.kind is ObjectKind.POD]
    assert [pod.node for pod in pods if isinstance(pod, PodObject)] == ["", "n1", "n1"]


def test_names_and_owners_find_what_is_there_now() -> None:
    store = filled()
    assert store.pod_named("default", "a-ps-0") is None
    assert store.pods_of("j") == []
    assert store.job_named("default", "a") is store.jobs["j"]
    assert store.job_named("other", "a") is None
    store.drop_job("j")
    store.drop_node("n1")
    assert (store.jobs, store.nodes, store.job_named("default", "a")) == ({}, {}, None)


def test_since_gives_what_came_after_and_nothing_when_up_to_date() -> None:
    store = filled()
    assert words(store.since(3)) == ["MODIFIED Pod a-ps-0", "DELETED Pod a-ps-0"]
    assert store.since(5) == []
    assert store.since(99) == []


def test_what_is_compacted_is_gone_not_empty() -> None:
    store = filled()
    store.compact(3)
    assert store.since(2) is None
    assert words(store.since(3)) == ["MODIFIED Pod a-ps-0", "DELETED Pod a-ps-0"]
    store.compact(1)
    assert store.compacted == 3
    store.compact(99)
    assert (store.compacted, store.history, store.since(5)) == (5, [], [])
    store.put_node(node("n2", 1, 1))
    assert [change.verb for change in store.since(5) or []] == [Verb.ADDED]


def test_uids_are_unique_and_the_same_in_every_run() -> None:
    first, second = WorldStore(), WorldStore()
    uids = [first.new_uid(ObjectKind.POD), first.new_uid(ObjectKind.POD), first.new_uid(ObjectKind.JOB)]
    assert len(set(uids)) == 3
    assert uids == [second.new_uid(ObjectKind.POD), second.new_uid(ObjectKind.POD), second.new_uid(ObjectKind.JOB)]
