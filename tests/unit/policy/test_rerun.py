"""Running a journal again under another policy: outside events happen as recorded, and the policy
decides for itself.
"""

from __future__ import annotations

from dataclasses import replace

from policy.answers.rerun import Rerun, Works
from policy.cluster.events import Event, JobGone, JobSeen, NodeSeen, PodGone, PodSeen, Synced
from policy.cluster.job import Job
from policy.cluster.pod import Phase, Pod
from policy.cluster.snapshot import Snapshot
from policy.systems import make_policy
from policy.systems.base import Policy
from policy.systems.baselines import Fifo
from policy.systems.kod2 import Kod2
from tests import builders
from tests.builders import START, World

NODES: tuple[Event, ...] = (NodeSeen(builders.node("n1")), NodeSeen(builders.node("n2")), Synced())


def rigid(name: str, workers: int = 4) -> Job:
    """Return a rigid job that needs nine cores for a ps and its workers; a node takes one such job."""
    return builders.job(name).ps(1).workers(workers).done()


def arrives(job: Job) -> list[Event]:
    return [JobSeen(job), *(PodSeen(pod) for pod in builders.members(job))]


def rerun(policy: Policy | None = None, work: dict[str, float] | None = None) -> Rerun:
    return Rerun(Snapshot(), policy or Kod2(), work or {}, START, same=True)


def test_jobs_start_and_wait_as_the_policy_says_whatever_was_recorded() -> None:
    a, b, c = rigid("a"), rigid("b"), rigid("c")
    # job c ran in the recorded run
    recorded = [PodSeen(replace(pod, node="n2", version=2)) for pod in builders.members(c)]
    found = rerun().to(START + 10, [*NODES, *arrives(a), *arrives(b), *arrives(c), *recorded])
    assert (found.running, found.waiting, found.used["cpu"]) == (2, 1, 0.9)


def test_a_job_ends_when_it_has_had_its_work_and_the_next_one_starts() -> None:
    a, b, c = rigid("a"), rigid("b"), rigid("c")
    again = rerun(work={a.uid: 4 * 100.0, b.uid: 4 * 300.0})
    again.to(START, [*NODES, *arrives(a), *arrives(b), *arrives(c)])
    assert again.to(START + 99, []).waiting == 1
    assert (again.to(START + 101, []).waiting, again.started, again.ended) == (0, 3, 1)
    assert (again.to(START + 301, []).running, again.ended) == (1, 2)
    assert again.to(START + 9_000, []).running == 1, "c did not finish in the record"


def test_more_workers_end_the_same_work_sooner() -> None:
    elastic = builders.job("e").ps(1).workers(1, 8, 1).done()
    ends = {}
    for policy in (Kod2(), Fifo()):
        again = rerun(policy, {elastic.uid: 800.0})
        again.to(START, [*NODES, *arrives(elastic)])
        ends[policy.name] = next(at for at in range(0, 1000, 10) if again.to(START + at, []).running == 0)
    assert ends["kod2"] < ends["fifo"] / 2


def test_what_finished_in_the_record_is_not_ended_by_the_record() -> None:
    a = rigid("a")
    again = rerun(work={a.uid: 400.0})
    again.to(START, [*NODES, *arrives(a)])
    ended = replace(a, finished=True, version=9)
    assert again.to(
        START + 50, [JobSeen(ended), *(PodGone(p.uid) for p in builders.members(a)), JobGone(a.uid)]
    ).running
    assert again.to(START + 101, []).running == 0


def test_what_runs_when_the_record_begins_runs_here_too() -> None:
    a, b = rigid("a"), builders.job("b").ps(1).workers(1, 4, 4).done()
    there = [PodSeen(replace(pod, node="n1", phase=Phase.RUNNING)) for pod in builders.members(a)]
    again = rerun(work={a.uid: 400.0})
    lists: list[Event] = [*NODES[:-1], JobSeen(a), *there, PodSeen(builders.guest("full", "n2", cpu=9)), Synced()]
    assert again.to(START, [*lists, *arrives(b)]).waiting == 1
    assert (again.started, again.to(START + 101, [PodGone("uid-full")]).running) == (1, 1)


def test_what_users_and_others_do_comes_as_recorded() -> None:
    a, b = rigid("a"), rigid("b")
    again = rerun()
    assert again.to(START, [*NODES, *arrives(a), *arrives(b)]).running == 2
    assert again.to(START + 1, [JobGone(a.uid)]).running == 1
    full = builders.guest("full", "n1", cpu=9)
    assert again.to(START + 2, [PodSeen(full)]).used["cpu"] == 0.9
    assert again.to(START + 3, [PodGone(full.uid)]).used["cpu"] == 0.45
    assert again.to(START + 4, [JobSeen(replace(b, suspended=True, version=7))]).used["cpu"] == 0
    assert again.to(START + 5, [JobSeen(replace(b, version=8))]).running == 1


def test_a_resize_by_the_recorded_policy_is_no_fact() -> None:
    elastic = builders.job("e").ps(1).workers(1, 4, 2).done()
    again = rerun(Fifo())
    before = again.to(START, [*NODES, *arrives(elastic)])
    shrunk = builders.job("e").ps(1).workers(1, 4, 1).done()
    gone = builders.members(elastic)[-1]
    after = again.to(START + 5, [JobSeen(replace(shrunk, version=5)), PodGone(gone.uid)])
    assert after.used == before.used


def test_every_policy_runs_a_record_that_begins_in_the_middle() -> None:
    world = World(Kod2()).nodes("n1", "n2")
    world.submit(rigid("a"), builders.job("e").ps(1).workers(1, 4, 2).done(), rigid("later"))
    for name in ("kod2", "drs", "dragon", "specon", "fifo-pod", "drf", "kod2+specon"):
        again = Rerun(world.snapshot, make_policy(name), {"job-a": 100.0}, START, same=False)
        loads = [again.to(START + at, []) for at in range(0, 400, 20)]
        assert (again.ended, max(load.running for load in loads) >= 2) == (1, True), name


def test_who_binds_pod_by_pod_does_so_beneath_another_too() -> None:
    """Without gangs, jobs that are only partly bound when the record begins count as running, as in the
    live service.
    """
    gangs = {
        name: rerun(make_policy(name))._snapshot.rules.gangs for name in ("fifo-pod", "fifo-pod+specon", "kod2+specon")
    }
    assert gangs == {"fifo-pod": False, "fifo-pod+specon": False, "kod2+specon": True}


def test_work_is_what_a_job_had_until_it_finished() -> None:
    world = World(Kod2()).nodes("n1", "n2")
    a = rigid("a")
    world.submit(a)
    bind(world, a)
    works = Works(world.now)
    works.look(world.snapshot, world.now + 60)
    works.look(world.snapshot, world.now + 90)
    works.finish([JobSeen(replace(a, finished=True))])
    assert works.done == {a.uid: 4 * 90.0}


def bind(world: World, job: Job) -> None:
    def there(pod: Pod) -> Pod:
        return replace(pod, node="n1", phase=Phase.RUNNING)

    world.see(*(there(pod) for pod in builders.members(job)))
