"""Metrics of how long jobs take, from their creation to their end."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from extender.observe.jobtimes import JobTimes
from policy.cluster.actions import Migrate
from policy.cluster.events import Event, JobGone, JobSeen
from policy.cluster.gang import Gang, State
from policy.cluster.snapshot import Snapshot
from policy.step import step
from policy.systems.kod2 import Kod2
from tests.builders import START, World, job, w


def measured(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"kohort_{name}", labels)


class Followed(World):
    """A world whose steps are passed to the metrics of job times."""

    def __init__(self) -> None:
        super().__init__(Kod2())
        self.registry = CollectorRegistry()
        self.passage = JobTimes(self.registry)

    def times(self, of: str) -> tuple[float | None, float | None]:
        """Return the count and the sum (seconds) of the histogram ``OF_seconds``; None where nothing was measured."""
        return measured(self.registry, f"{of}_seconds_count"), measured(self.registry, f"{of}_seconds_sum")

    def do(self, *events: Event) -> tuple[object, ...]:  # type: ignore[override]
        self.snapshot, effects = step(self.snapshot, events, self.policy, self.now)
        self.passage.follow(self.now, events, effects, self.snapshot)
        return effects


def test_a_job_is_followed_from_creation_to_end() -> None:
    world = Followed()
    world.nodes("n1")
    world.now = START + 7
    one = job("a").workers(1)
    world.submit(one)
    world.now += 3
    world.operate(one)
    assert (world.times("job_wait"), world.times("gang_admission_to_bound")) == ((1, 7.0), (1, 3.0))
    assert world.times("job_completion") == (0, 0.0)
    world.now += 90
    world.see(one.with_(finished=True))
    assert world.times("job_completion") == (1, 100.0)
    world.see(one.with_(finished=True))
    assert world.times("job_completion") == (1, 100.0), "once"


def test_one_that_had_ended_before_our_start_is_not_counted() -> None:
    world = Followed()
    world.nodes("n1")
    world.see(job("a").workers(1).with_(finished=True))
    assert world.times("job_completion") == (0, 0.0)
    assert len(world.passage) == 0


def test_a_second_admission_is_no_second_wait() -> None:
    world = Followed()
    world.nodes("n1")
    world.submit(job("a").workers(1))
    world.pass_time(world.snapshot.rules.plan_seconds + 1)  # kube-scheduler makes no bind call, so the plan is given up
    world.pass_time(60)
    assert world.times("job_wait")[0] == 1


def test_who_is_gone_is_forgotten() -> None:
    world = Followed()
    world.nodes("n1")
    world.submit(job("a").workers(1))
    assert len(world.passage) == 2
    world.do(JobGone("job-a"))
    assert len(world.passage) == 0
    assert world.times("gang_admission_to_bound") == (0, 0.0)


@pytest.mark.parametrize(("state", "node", "arrived"), [
    (State.RUNNING, "n2", True), (State.RUNNING, "n1", False), (State.REPAIRING, "n2", False),
])  # fmt: skip
def test_how_a_migration_ends(state: State, node: str, arrived: bool) -> None:
    registry = CollectorRegistry()
    passage, outcome = JobTimes(registry), "arrived" if arrived else "given-up"
    moving = Snapshot(gangs={"j": Gang("j", State.MIGRATING, nodes={w(0): "n2"})})
    passage.follow(0.0, [], [Migrate("j", {w(0): "n2"})], moving)
    assert measured(registry, "migrations_total", outcome=outcome) is None
    passage.follow(1.0, [], [], Snapshot(gangs={"j": Gang("j", state, nodes={w(0): node})}))
    passage.follow(2.0, [JobSeen(job("j").done())], [], Snapshot())
    assert measured(registry, "migrations_total", outcome=outcome) == 1
    other = "given-up" if arrived else "arrived"
    assert measured(registry, "migrations_total", outcome=other) is None
