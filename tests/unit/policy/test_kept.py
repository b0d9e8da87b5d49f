"""Answers that are cached with a snapshot: how long each one is used, and which pods' answers are never cached."""

from __future__ import annotations

from dataclasses import replace

from policy.cluster.job import Job
from policy.cluster.kept import of_each_job, shared, until_job_changes, until_nodes_change, until_room_changes
from policy.cluster.resources import Resources
from policy.cluster.snapshot import Snapshot
from policy.systems import make_policy
from tests.builders import World, guest, job, node


def world() -> World:
    made = World(make_policy("fifo")).nodes("n1", "n2")
    made.start(job("a").workers(1))
    made.start(job("b").workers(1))
    return made


def test_an_answer_about_a_job_is_kept_until_that_job_changes() -> None:
    asked: list[tuple[str, int]] = []

    @until_job_changes
    def question(snapshot: Snapshot, one: Job, more: int) -> int:
        del snapshot
        asked.append((one.name, more))
        return more

    made = world()
    for _ in range(2):
        assert [question(made.snapshot, made.snapshot.jobs[uid], 1) for uid in ("job-a", "job-b")] == [1, 1]
    assert question(made.snapshot, made.snapshot.jobs["job-a"], 2) == 2
    assert asked == [("a", 1), ("b", 1), ("a", 2)]
    made.see(replace(made.snapshot.jobs["job-a"], version=99))
    assert [question(made.snapshot, made.snapshot.jobs[uid], 1) for uid in ("job-a", "job-b")] == [1, 1]
    assert asked[3:] == [("a", 1)]


def test_a_job_that_somebody_has_made_up_is_asked_about_each_time() -> None:
    asked: list[str] = []

    @until_job_changes
    def question(snapshot: Snapshot, one: Job) -> None:
        del snapshot
        asked.append(one.name)

    made = world()
    for _ in range(2):
        question(made.snapshot, replace(made.snapshot.jobs["job-a"], max_workers=7))
    assert asked == ["a", "a"]


def test_answers_about_nodes_and_room_are_kept_until_these_change() -> None:
    asked: list[str] = []

    @until_nodes_change
    def names(snapshot: Snapshot) -> list[str]:
        asked.append("nodes")
        return sorted(snapshot.nodes)

    @until_room_changes
    def free(snapshot: Snapshot, name: str) -> Resources:
        asked.append("room")
        return snapshot.free(name)

    made = world()
    for _ in range(2):
        assert names(made.snapshot) == ["n1", "n2"]
        free(made.snapshot, "n1")
    made.see(guest("stranger", "n1", 1, 1))
    assert names(made.snapshot) == ["n1", "n2"]
    free(made.snapshot, "n1")
    made.nodes(node("n3"))
    assert names(made.snapshot) == ["n1", "n2", "n3"]
    assert asked == ["nodes", "room", "room", "nodes"]


def test_a_figure_of_each_job_is_found_again_when_what_it_depends_on_changes() -> None:
    asked: list[str] = []
    made = world()
    one = made.snapshot.jobs["job-a"]

    def figure(ground: float) -> float:
        def ask(of: Job, given: float) -> float:
            asked.append(of.name)
            return given + len(of.name)

        return of_each_job(made.snapshot, "figure", lambda: ground, ask)(one)

    assert [figure(ground) for ground in (1.0, 1.0, 2.0)] == [2.0, 2.0, 3.0]
    assert asked == ["a", "a"]


def test_equal_values_are_one_object() -> None:
    made = world()
    first, second = Resources({"cpu": 1}), Resources({"cpu": 1})
    assert shared(made.snapshot, first) is shared(made.snapshot, second) is first
