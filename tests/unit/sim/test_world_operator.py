"""The simulated training operator creates the pods of a job's spec at a limited rate, and ends the job."""

from dataclasses import replace

import pytest

from lab.sim.objects import CleanPods, JobPhase
from policy.cluster.job import Role
from tests.unit.sim.worlds import (
    PENDING,
    RUNNING,
    SMALL,
    SUCCEEDED,
    bind_all,
    job,
    pod,
    running,
    slots,
    spec,
    submitted,
    world,
)


def test_every_replica_gets_a_pod_in_its_slot_with_the_roles_requests() -> None:
    made = submitted(spec(workers=2, annotations={"k": "v"}))
    assert slots(made) == {"ps-0": PENDING, "worker-0": PENDING, "worker-1": PENDING}
    worker = pod(made, "a-worker-1")
    assert (worker.requests, worker.owner, worker.job, worker.annotations) == (SMALL, job(made).uid, "a", {"k": "v"})


def test_a_hundred_members_take_eight_and_a_half_seconds() -> None:
    """Two requests each, 30 at once, then 20 a second (measured on the real operator: 8-9 s)."""
    made = world(operator_rate=20.0, operator_burst=30.0)
    made.submit(spec(workers=99))
    made.advance(0.0)
    assert len(made.store.pods) == 15
    made.advance(4.25)
    assert 56 <= len(made.store.pods) <= 58
    made.advance(8.4)
    assert len(made.store.pods) == 99
    made.advance(8.5)
    assert len(made.store.pods) == 100


def test_while_it_is_restarted_nothing_is_created_and_then_all() -> None:
    made = world()
    made.operator.restart(20.0)
    made.submit(spec(workers=2))
    made.advance(19.9)
    assert not made.store.pods
    made.advance(20.0)
    assert len(made.store.pods) == 3


def test_one_rate_for_all_jobs_in_the_order_of_their_submission() -> None:
    made = world(operator_rate=2.0, operator_burst=2.0)
    made.submit(spec("a", workers=1))
    made.submit(spec("b", workers=1))
    made.advance(2.0)
    assert sorted(p.name for p in made.store.pods.values()) == ["a-ps-0", "a-worker-0", "b-ps-0"]


def test_a_scale_in_removes_the_highest_index_first() -> None:
    made = running(spec(workers=4), operator_rate=2.0, operator_burst=2.0, start_seconds=10.0)
    made.advance(20.0)
    bind_all(made)
    made.advance(40.0)
    made.patch_workers("default", "a", 1)
    made.advance(40.0)
    assert slots(made)["worker-3"] == "going"
    assert slots(made)["worker-2"] == RUNNING
    made.advance(50.0)
    assert slots(made) == {"ps-0": RUNNING, "worker-0": RUNNING}


def test_a_scale_out_adds_the_next_indices() -> None:
    made = running(spec(workers=1))
    made.patch_workers("default", "a", 3)
    made.advance(made.now)
    assert slots(made) == {"ps-0": RUNNING, "worker-0": RUNNING, "worker-1": PENDING, "worker-2": PENDING}


def test_a_lost_member_is_replaced_by_a_new_pod_in_the_same_slot_once_the_name_is_free() -> None:
    made = running(spec(workers=1), terminate_seconds=5.0)
    first = pod(made)
    made.delete_pod("default", "a-worker-0", uid=first.uid)
    made.advance(5.9)
    assert slots(made)["worker-0"] == "going"
    made.advance(6.0)
    assert slots(made)["worker-0"] == PENDING
    assert pod(made).uid != first.uid


CLEANED = {
    CleanPods.NONE: {"ps-0": RUNNING, "worker-0": SUCCEEDED, "worker-1": SUCCEEDED},
    CleanPods.RUNNING: {"worker-0": SUCCEEDED, "worker-1": SUCCEEDED},
    CleanPods.ALL: {},
}


@pytest.mark.parametrize(("policy", "left"), CLEANED.items(), ids=lambda value: getattr(value, "value", ""))
def test_a_finished_job_keeps_the_pods_that_its_policy_says(policy: CleanPods, left: dict[str, str]) -> None:
    made = running(spec(workers=2, work=100.0, clean_pods=policy))
    made.advance(1000.0)
    assert job(made).phase is JobPhase.SUCCEEDED
    assert slots(made) == left
    assert made.next_time() is None


def test_a_pending_pod_goes_with_the_running_ones_when_the_job_has_ended() -> None:
    made = submitted(spec(workers=3, work=10.0))
    for name in ("a-ps-0", "a-worker-0", "a-worker-1"):
        made.bind("default", name, "n1")
    made.advance(100.0)
    assert slots(made) == {"worker-0": SUCCEEDED, "worker-1": SUCCEEDED}


def test_the_phase_follows_the_pods() -> None:
    made = submitted(spec(workers=1))
    assert job(made).phase is JobPhase.CREATED
    bind_all(made)
    made.advance(1.0)
    assert (job(made).phase, job(made).started) == (JobPhase.RUNNING, 1.0)
    made.advance(601.0)
    assert (job(made).phase, job(made).ended) == (JobPhase.SUCCEEDED, 601.0)


def test_a_chief_decides_the_end_where_there_is_one() -> None:
    base = spec(workers=1)
    made = running(replace(base, roles=(*base.roles, Role("chief", 1, SMALL))))
    made.advance(1000.0)
    assert job(made).phase is JobPhase.SUCCEEDED
    assert slots(made) == {"chief-0": SUCCEEDED, "worker-0": SUCCEEDED}


def test_a_job_that_is_ended_as_failed_gives_its_room_back() -> None:
    made = running(spec())
    made.fail_job("default", "a")
    made.advance(50.0)
    assert (job(made).phase, slots(made)) == (JobPhase.FAILED, {})
    assert made.fail_job("default", "a") is None


def test_a_suspended_job_has_no_pods_and_gets_them_back() -> None:
    made = running(spec(workers=1))
    made.suspend("default", "a")
    made.advance(10.0)
    assert slots(made) == {}
    made.suspend("default", "a", False)
    made.advance(10.0)
    assert slots(made) == {"ps-0": PENDING, "worker-0": PENDING}
