"""A policy with a rebalancer: the base policy decides, and the rebalancer migrates jobs that the base leaves alone."""

from __future__ import annotations

from policy.answers.queue import places
from policy.cluster.actions import Action, Admit, Decision, Migrate, Resize
from policy.systems import make_policy
from policy.systems.guests import Guests
from policy.systems.kod2 import Kod2
from policy.systems.rebalanced import Rebalanced
from policy.systems.specon import SpeCon
from tests.builders import World, job, w


def test_the_base_decides_and_the_rebalancer_moves_what_it_leaves() -> None:
    """KOD2 puts both jobs on n1, and the rebalancer moves one of them to n2, which is idle."""
    a, b = (job(name).workers(1, cpu=1).with_(migratable=True) for name in ("a", "b"))
    world = World(Rebalanced(Kod2(), Guests())).nodes("n1", "n2").start(a)
    assert world.plan("a") == {"worker-0": "n1"}
    world.submit(b)
    assert world.plan("b") == {"worker-0": "n1"}
    world.bind(b)
    found = [effect for effect in (*world.effects, *world.pass_time(30)) if isinstance(effect, Migrate)]
    assert [(one.job_uid, set(one.nodes.values())) for one in found] == [("job-a", {"n2"})]


def moved(world: World, *decided: Action) -> list[str]:
    """Return the uids of the jobs that the rebalancer migrates after these actions of the base policy."""
    found = Guests().moves(world.snapshot, Decision(decided), world.now)
    return [action.job_uid for action in found if isinstance(action, Migrate)]


def test_what_the_base_touches_is_left_alone() -> None:
    """Both jobs are on n1 and n2 is idle: the older job moves, unless the base resizes it or gives n2 to
    another job.
    """
    a, b = (job(name).workers(1, cpu=1).with_(migratable=True) for name in ("a", "b"))
    world = World(Kod2()).nodes("n1", "n2").start(a, b)
    world.see(job("x").workers(1))
    assert moved(world) == ["job-a"]
    assert moved(world, Resize("job-a", 1)) == ["job-b"]
    assert moved(world, Admit("job-x", 1, {w(0): "n2"})) == []
    assert moved(world, Admit("job-x", 1, {w(0): "n1"}, waits_for=("uid-a-worker-0",))) == []


def test_its_name_says_both() -> None:
    made = make_policy("kod2+specon", gate="strict")
    assert made == Rebalanced(make_policy("kod2", gate="strict"), SpeCon())
    assert made.name == "kod2+specon"


def test_the_queue_is_the_bases() -> None:
    world = World(Rebalanced(Kod2(), SpeCon())).nodes("n1").start(job("x").workers(1, cpu=9))
    world.submit(job("light").workers(1, cpu=4), job("heavy").workers(3, cpu=4))
    order = [(place.job.name, place.weight is not None) for place in places(world.snapshot, world.policy, world.now)]
    assert order == [(place.job.name, True) for place in places(world.snapshot, Kod2(), world.now)]
    assert len(order) == 2
