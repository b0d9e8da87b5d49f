"""The simulated Job controller treats Indexed Jobs as the real one does: which pods it creates, counts and deletes."""

from __future__ import annotations

from dataclasses import replace

from lab.sim.objects import JobPhase, JobSpec, WorkloadKind
from lab.sim.pods.batch import COMPLETION_INDEX
from lab.sim.pods.world import SimulatedWorld
from policy.cluster.job import WORKER, Role
from policy.cluster.pod import Phase
from tests.unit.sim.worlds import SMALL, bind_all, job, submitted


def running(workers: int = 3, work: float = 600.0) -> SimulatedWorld:
    made = submitted(JobSpec("a", (Role(WORKER, workers, SMALL),), 1, 6, work, kind=WorkloadKind.INDEXED_JOB))
    bind_all(made)
    made.advance(2.0)
    return made


def active(made: SimulatedWorld) -> list[int]:
    """Return the sorted indices of the active pods."""
    return sorted(pod.slot.index for pod in made.store.pods.values() if pod.active and pod.slot is not None)


def end(made: SimulatedWorld, index: int, phase: Phase) -> str:
    """Let the index's pod end; return its uid."""
    pod = next(pod for pod in made.store.pods.values() if pod.active and pod.slot and pod.slot.index == index)
    made._core.write_pod(replace(pod, phase=phase, ended=made.now))
    made.advance(made.now + 3.0)
    return pod.uid


def test_each_index_has_a_pod_of_a_generated_name() -> None:
    made = running()
    assert active(made) == [0, 1, 2]
    for pod in made.store.pods.values():
        assert pod.slot is not None
        assert pod.labels[COMPLETION_INDEX] == str(pod.slot.index)
        assert pod.name.startswith(f"a-{pod.slot.index}-")
        assert len(pod.name) == len("a-0-") + 5
    assert job(made).phase is JobPhase.RUNNING


def test_a_pod_that_fails_or_terminates_has_a_successor_at_once() -> None:
    made = running()
    failed = end(made, 1, Phase.FAILED)
    assert (active(made), failed in made.store.pods) == ([0, 1, 2], True)
    going = next(pod for pod in made.store.pods.values() if pod.slot and pod.slot.index == 2)
    made.delete_pod("default", going.name)
    made.advance(made.now + 0.2)
    assert (active(made), going.uid in made.store.pods) == ([0, 1, 2], True)


def test_an_index_that_is_complete_has_no_other_pod_also_when_its_own_is_gone() -> None:
    made = running()
    done = end(made, 0, Phase.SUCCEEDED)
    assert (job(made).over, active(made)) == ((0,), [1, 2])
    made._core.remove_pod(done)
    made.advance(made.now + 3.0)
    assert (job(made).over, active(made)) == ((0,), [1, 2])


def test_it_has_succeeded_when_every_index_is_complete() -> None:
    made = running(work=10.0)
    made.advance(60.0)
    assert (job(made).phase, job(made).over, active(made)) == (JobPhase.SUCCEEDED, (0, 1, 2), [])
    assert {pod.phase for pod in made.store.pods.values()} == {Phase.SUCCEEDED}


def test_fewer_completions_take_the_highest_and_forget_that_they_were_complete() -> None:
    made = running()
    end(made, 2, Phase.SUCCEEDED)
    made.patch_workers("default", "a", 2)
    made.advance(made.now + 3.0)
    assert (job(made).over, active(made)) == ((), [0, 1])
    made.patch_workers("default", "a", 4)
    made.advance(made.now + 3.0)
    assert (job(made).over, active(made)) == ((), [0, 1, 2, 3])


def test_a_suspension_leaves_the_pods_that_have_succeeded() -> None:
    made = running()
    done = end(made, 0, Phase.SUCCEEDED)
    made.suspend("default", "a")
    made.advance(made.now + 10.0)
    assert set(made.store.pods) == {done}
    made.suspend("default", "a", False)
    made.advance(made.now + 3.0)
    assert active(made) == [1, 2]
