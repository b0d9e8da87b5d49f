"""A job's history and the list of decisions stay complete when pods and jobs are gone."""

from extender.present.decisionviews import decisions_view
from extender.present.historyview import history_view
from extender.state.journal import Journal
from policy.cluster.actions import Admit, Released, Resize
from policy.cluster.events import JobGone, PodGone
from policy.cluster.reasons import Reason
from tests.builders import World, job, node


def told(world: World, journal: Journal) -> None:
    """Write the effects since the last call into the journal, as the ledger does."""
    journal.write(world.now, world.snapshot.generation, ["PodSeen"], tuple(world.effects), snapshots=[world.snapshot])
    world.effects.clear()


def test_a_story_keeps_its_bindings_when_the_pods_are_gone() -> None:
    world, journal, one = World().nodes(node("n1")), Journal(), job("a").ps(cpu=1).workers(2, cpu=1)
    world.start(one)
    told(world, journal)
    before = history_view(journal.since(), one.done())
    assert [line for step in before for line in step.told][-1] == "3 bindings to n1 sent"
    world.do(*(PodGone(pod.uid) for pod in list(world.snapshot.pods.values())))
    told(world, journal)
    assert history_view(journal.since(), one.done())[: len(before)] == before


def test_a_decision_keeps_the_names_of_the_job_and_of_the_one_that_it_was_made_for() -> None:
    world, journal = World().nodes(node("n1", cpu=4)), Journal()
    light, heavy = job("light").workers(1, 4, cpu=1).replicas(4), job("heavy").workers(2, cpu=1).with_(utility=100.0)
    world.start(light)
    told(world, journal)
    world.submit(heavy)
    told(world, journal)
    world.do(JobGone(light.done().uid), JobGone(heavy.done().uid))
    views = decisions_view(journal.since(), 0, 100)
    assert {view.job.key for view in views if view.job is not None and view.action != "Remember"} >= {"team/light"}
    assert all(view.job is not None for view in views if view.action in ("Admit", "Bind", "Resize"))
    assert [view.on_behalf_of for view in views if view.action == "Resize"][-1] == "team/heavy"


def test_a_start_after_a_suspension_tells_the_resume_in_the_same_manner() -> None:
    world, journal, one = World().nodes(node("n1")), Journal(), job("a").workers(2, cpu=1)
    world.start(one)
    told(world, journal)
    start = tuple(entry.effect for entry in journal.since() if isinstance(entry.effect, Admit))
    for effects in ((Released(job_uid="job-a", plan="", reason=Reason.SUSPENDED),), start):
        journal.write(world.now, world.snapshot.generation + 1, ["JobSeen"], effects, snapshots=[world.snapshot])
    said = [line for step in history_view(journal.since(), one.done()) for line in step.told]
    assert "plan given up: the job is suspended; it queues when it is resumed" in said
    assert said[-1].startswith("resumed; planned: to start with 2 workers")


def test_a_growth_is_told_as_one_also_where_the_start_is_not_in_the_journal() -> None:
    """The job's start is missing after a restart or when the journal's ring has dropped it.

    A user has raised the job's minimum, so the decision names no nodes.
    """
    world, journal = World().nodes(node("n1")).start(job("a").workers(3, cpu=1)), Journal()
    journal.write(world.now, 7, [], [Resize("job-a", 4)], snapshots=(world.snapshot, world.snapshot))
    (view,) = decisions_view(journal.since(), 0, 100)
    assert (view.action, view.direction, view.text) == ("Resize", "out", "asked to scale out to 4 workers")
