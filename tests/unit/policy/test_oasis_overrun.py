"""Jobs that run past their schedule stay where they are, and no other job is restarted for them in every slot."""

from dataclasses import replace

import pytest

from policy.cluster.actions import Resize
from policy.cluster.events import PodGone, PodSeen, Tick
from policy.cluster.gang import State
from policy.cluster.training import Training, Utility
from policy.systems.oasis import Oasis
from tests.builders import START, JobBuilder, World, job, members, node

SLOT = 1000.0
BEGIN = (START // SLOT + 1) * SLOT


def slots_of_work(count: int) -> Training:
    return Training(epochs=count, chunks=1, seconds=SLOT, utility=Utility(100.0, 0.1, 20.0))


def world(*nodes: str) -> World:
    return World(Oasis(slot_seconds=SLOT, horizon=10), now=BEGIN).nodes(*nodes)


def follow(made: World, one: JobBuilder) -> None:
    """Do once what the operator and kube-scheduler do for a job that can be suspended."""
    this = one.done()
    pods = list(made.snapshot.pods_of(this.uid))
    if made.state(this.name) is State.PAUSED and any(pod.node for pod in pods):
        made.see(replace(made.snapshot.jobs[this.uid], released=True))
        made.do(*(PodGone(pod.uid) for pod in pods))
        made.see(replace(made.snapshot.jobs[this.uid], released=False))
        made.do(*(PodSeen(made.fresh(pod)) for pod in members(this)))
    if made.state(this.name) is State.PLANNED:
        made.bind(one)


def test_beside_one_that_cannot_be_moved_and_overruns_another_is_moved_once() -> None:
    """The job s is booked on the node that it occupies; otherwise job j would be restarted for that room
    in every slot.
    """
    made = world("n1")
    stays = job("s", kind="StatefulSet", training=slots_of_work(1), arrival=BEGIN).workers(1, cpu=8)
    other = job("j", training=slots_of_work(6), suspends=True, arrival=BEGIN).workers(1, cpu=8)
    for one in (stays, other):
        made.submit(one)
        made.bind(one)
    made.see(node("n2"), node("n3"))
    for slot in range(1, 13):
        made.now = BEGIN + slot * SLOT
        made.do(Tick())
        for _ in range(6):
            made.now += 10
            follow(made, other)
            made.do(Tick())
    assert made.state("s") is State.RUNNING
    pauses = [one for one in made.effects if isinstance(one, Resize) and one.job_uid == "job-j" and one.pauses]
    assert len(pauses) <= 1


@pytest.mark.parametrize("slots", [1, 2], ids=["at the first slot past it", "at a later one"])
def test_a_slot_that_is_looked_at_late_takes_no_room_from_who_runs_past_its_schedule(slots: int) -> None:
    """A fail-over may cause this: later than a twentieth into a slot, no job is planned in that slot."""
    made = world("n1", "n2")
    one = job("a", training=slots_of_work(1), suspends=True, arrival=BEGIN).workers(1)
    made.submit(one)
    made.bind(one)
    for slot in range(1, slots):
        made.now = BEGIN + slot * SLOT
        made.do(Tick())
    made.now = BEGIN + slots * SLOT + 0.1 * SLOT
    made.do(Tick())
    assert made.state("a") is State.RUNNING
