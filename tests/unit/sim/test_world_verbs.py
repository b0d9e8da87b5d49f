"""The API server's part of the world: what a write does, and what it refuses."""

from collections.abc import Callable

import pytest

from lab.sim.objects import GATE, SCHEDULING_GATED, Condition, PodObject, WorldRefusal
from lab.sim.pods.world import SimulatedWorld
from tests.unit.sim.worlds import SMALL, bind_all, job, pod, running, spec, submitted, words, world


def test_a_binding_gives_the_node_and_its_annotations_in_one_write_and_clears_the_nomination() -> None:
    made = submitted(spec())
    made.nominate("default", "a-worker-0", "n2")
    before = made.revision
    assert made.bind("default", "a-worker-0", "n1", uid=pod(made).uid, annotations={"kohort.dev/plan": "7"}) is None
    bound = pod(made)
    assert (bound.node, bound.annotations, bound.nominated) == ("n1", {"kohort.dev/plan": "7"}, "")
    assert bound.scheduled == Condition(True)
    assert made.revision == before + 1


def gone(made: SimulatedWorld) -> WorldRefusal | None:
    return made.bind("default", "a-worker-9", "n1")


def another_uid(made: SimulatedWorld) -> WorldRefusal | None:
    return made.bind("default", "a-worker-0", "n1", uid="another")


def bound_elsewhere(made: SimulatedWorld) -> WorldRefusal | None:
    made.bind("default", "a-worker-0", "n2")
    return made.bind("default", "a-worker-0", "n1")


def bound_there(made: SimulatedWorld) -> WorldRefusal | None:
    made.bind("default", "a-worker-0", "n1")
    return made.bind("default", "a-worker-0", "n1")


def going(made: SimulatedWorld) -> WorldRefusal | None:
    made.bind("default", "a-worker-0", "n1")
    made.delete_pod("default", "a-worker-0")
    return made.bind("default", "a-worker-0", "n1")


def gated(made: SimulatedWorld) -> WorldRefusal | None:
    made.set_gating(True)
    made.create_pod(PodObject("", "default", "alone"))
    return made.bind("default", "alone", "n1")


BINDINGS = {
    "a pod that is gone": (gone, 404, "not found"),
    "another pod of that name": (another_uid, 409, "UID in precondition: another"),
    "a pod on another node": (bound_elsewhere, 409, 'already assigned to node "n2"'),
    "a pod on that very node: not idempotent": (bound_there, 409, 'already assigned to node "n1"'),
    "a pod that is being deleted": (going, 409, "is being deleted"),
    "a pod with a gate": (gated, 409, "non-empty .spec.schedulingGates"),
}


@pytest.mark.parametrize(("act", "status", "said"), BINDINGS.values(), ids=BINDINGS.keys())
def test_a_binding_is_refused_as_the_api_server_does(
    act: Callable[[SimulatedWorld], WorldRefusal | None], status: int, said: str
) -> None:
    made = submitted(spec())
    refusal = act(made)
    assert refusal is not None
    assert refusal.status == status
    assert said in refusal.message


def test_a_binding_looks_at_neither_room_nor_node_but_the_world_can_tell() -> None:
    made = submitted(spec(workers=4), nodes=1)
    made.create_pod(PodObject("", "default", "big", SMALL.times(9)))
    made.bind("default", "big", "n1")
    assert made.overcommitted() == []
    bind_all(made)
    assert [said.partition(":")[0] for said in made.overcommitted()] == ["node n1"]
    made.create_pod(PodObject("", "default", "lost"))
    assert made.bind("default", "lost", "no-such-node") is None


def test_gating_gates_new_pods_of_the_scheduler_and_nobody_else() -> None:
    made = world()
    made.set_gating(True)
    made.submit(spec("a"))
    made.submit(spec("b", scheduler="default-scheduler"))
    made.advance(0.0)
    assert pod(made, "a-ps-0").gates == (GATE,)
    assert pod(made, "a-ps-0").scheduled == Condition(False, SCHEDULING_GATED)
    assert pod(made, "b-ps-0").gates == ()
    made.set_gating(False)
    made.patch_workers("default", "a", 4)
    made.advance(0.0)
    assert pod(made, "a-worker-3").gates == ()


def test_ungating_removes_that_gate_only_and_twice_is_no_write() -> None:
    made = world()
    made.create_pod(PodObject("", "default", "alone", gates=("other", GATE)))
    assert made.ungate("default", "alone") is None
    assert pod(made, "alone").gates == ("other",)
    before = made.revision
    assert made.ungate("default", "alone") is None
    assert made.revision == before


def test_annotating_merges_and_none_removes() -> None:
    made = submitted(spec(annotations={"x": "1"}))
    made.annotate("default", "a-ps-0", {"y": "p", "x": None})
    assert pod(made, "a-ps-0").annotations == {"y": "p"}


def test_a_refused_pod_has_the_condition_that_it_was_given() -> None:
    made = submitted(spec())
    made.patch_scheduled_condition("default", "a-ps-0", False, "Unschedulable", "no room")
    assert pod(made, "a-ps-0").scheduled == Condition(False, "Unschedulable", "no room")
    assert pod(made).scheduled is None


REFUSED_WRITES: dict[str, tuple[Callable[[SimulatedWorld], WorldRefusal | None], int]] = {
    "a job of that name exists": (lambda w: w.submit(spec()), 409),
    "no such job": (lambda w: w.patch_workers("default", "b", 2), 404),
    "the job has changed since": (lambda w: w.patch_workers("default", "a", 2, version=1), 409),
    "a job of another uid": (lambda w: w.patch_workers("default", "a", 2, uid="another"), 409),
    "fewer than no workers": (lambda w: w.patch_workers("default", "a", -1), 422),
    "no such pod": (lambda w: w.ungate("default", "a-worker-9"), 404),
    "the pod has changed since": (lambda w: w.ungate("default", "a-ps-0", version=1), 409),
    "another pod of that name to delete": (lambda w: w.delete_pod("default", "a-ps-0", uid="another"), 409),
    "a pod of that name exists": (lambda w: w.create_pod(PodObject("", "default", "a-ps-0")), 409),
    "no such node": (lambda w: w.fail_node("n9"), 404),
    "no such node to delete": (lambda w: w.remove_node("n9"), 404),
    "no such job to suspend": (lambda w: w.suspend("default", "b"), 404),
    "no such job to delete": (lambda w: w.delete_job("default", "b"), 404),
    "no such job to end": (lambda w: w.fail_job("default", "b"), 404),
    "no such job to change": (lambda w: w.put_spec(spec("b")), 404),
}


@pytest.mark.parametrize(("write", "status"), REFUSED_WRITES.values(), ids=REFUSED_WRITES.keys())
def test_a_refused_write_changes_nothing(write: Callable[[SimulatedWorld], WorldRefusal | None], status: int) -> None:
    made = submitted(spec())
    before = made.revision
    refusal = write(made)
    assert refusal is not None
    assert refusal.status == status
    assert made.revision == before


def test_a_write_with_the_version_that_was_read_is_done() -> None:
    made = submitted(spec())
    read = job(made)
    assert made.patch_workers("default", "a", 2, uid=read.uid, version=read.version) is None
    assert job(made).spec.workers == 2
    assert made.put_spec(job(made).spec) is None


def test_a_deleted_job_takes_its_pods_along() -> None:
    made = running(spec(workers=1))
    before = made.revision
    assert made.delete_job("default", "a") is None
    made.advance(10.0)
    assert made.store.pods == {}
    assert words(made.changes(before))[0] == "DELETED TFJob a"
    assert made.next_time() is None


def test_time_never_goes_back() -> None:
    made = world()
    made.advance(5.0)
    made.advance(3.0)
    assert made.now == 5.0
