"""The timeline: bindings of one gang are one line, and names outlive their jobs."""

from extender.page.timeline import Timeline
from extender.state.journal import Journal
from policy.cluster.events import JobGone, PodGone
from tests.builders import World, job, node


def told(world: World, journal: Journal) -> None:
    snapshots = (world.snapshot,)
    journal.write(world.now, world.snapshot.generation, ["PodSeen"], tuple(world.effects), snapshots=snapshots)
    world.effects.clear()


def test_a_gangs_bindings_are_one_line_newest_first() -> None:
    world, journal = World().nodes(node("n1")), Journal()
    timeline = Timeline(journal)
    world.start(job("a").ps(cpu=1).workers(2, cpu=1))
    told(world, journal)
    timeline.read_on()
    assert [(line.kind, line.text) for line in timeline.lines()] == [
        ("bound", "bound: 3 members on 1 node"),
        ("bind", "3 bindings sent"),
        ("admit", "planned: to start with 2 workers on 1 node"),
    ]


def test_a_job_that_is_gone_keeps_its_name_and_the_journal_is_read_once() -> None:
    world, journal = World().nodes(node("n1")), Journal()
    timeline, one = Timeline(journal), job("a").workers(1, cpu=1)
    world.start(one)
    told(world, journal)
    timeline.read_on()
    world.do(*(PodGone(pod.uid) for pod in list(world.snapshot.pods.values())), JobGone(one.done().uid))
    timeline.read_on()
    assert [(line.namespace, line.name) for line in timeline.lines()] == [("team", "a")] * 3
    assert list(timeline.lines("nobody")) == []
