"""Test the checks that a process does not contradict the facts that its own watches have delivered (S17, S18)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from lab.sim.traces import node, pod_requests
from policy.cluster.gang import Gang, State
from policy.cluster.job import WORKER, Slot
from policy.cluster.node import Node
from policy.cluster.pod import Pod
from policy.cluster.snapshot import Snapshot
from tests.simulation import shown
from tests.simulation.shown import HEARD_SECONDS, HeardRefusals, taken_before

UID = "default/a"
NODE: Node = node("n1", 10, 32)
REFUSAL = "0/1 nodes are available: 1 pod has unbound immediate PersistentVolumeClaims."
MEMBER = Pod("m", "default", "a-worker-0", pod_requests(4, 1), job_uid=UID, slot=Slot(WORKER, 0), opted_in=True)


def pod(name: str, cores: int, **more: Any) -> Pod:
    return Pod(name, "elsewhere", name, pod_requests(cores, 1), **more)


def known(*pods: Pod, **gang: Any) -> Snapshot:
    made = Gang(UID, state=State.PLANNED, workers=1, plan="1", nodes={Slot(WORKER, 0): "n1"})
    gangs = {UID: replace(made, **gang)}
    return Snapshot(nodes={"n1": NODE}, pods={one.uid: one for one in (MEMBER, *pods)}, gangs=gangs)


def is_taken(*pods: Pod, **gang: Any) -> bool:
    return bool(taken_before(known(*pods, **gang), "m", "n1"))


def test_room_of_bound_pods_is_taken_until_they_have_ended() -> None:
    assert not is_taken(pod("other", 6, node="n1"))
    assert is_taken(pod("other", 7, node="n1"))
    assert is_taken(pod("going", 7, node="n1", terminating=True))
    assert not is_taken(pod("elsewhere", 7, node="n2"))


def test_room_of_other_bindings_on_their_way_is_taken() -> None:
    assert is_taken(pod("other", 7), in_flight={"m": "n1", "other": "n1"})
    assert not is_taken(pod("other", 7), in_flight={"m": "n1", "other": "n2"})


def test_a_nominated_pod_of_another_scheduler_that_ranks_as_high_has_its_room() -> None:
    claim = pod("urgent", 7, nominated="n1", priority=10)
    assert is_taken(claim)
    assert not is_taken(replace(claim, priority=-1))
    # A nomination of a pod that opted in is Kohort's own, so it is part of the plan and takes no further room.
    assert not is_taken(replace(claim, opted_in=True))
    assert not is_taken(replace(claim, terminating=True))


def test_what_a_victim_still_holds_is_not_counted_twice() -> None:
    victim = pod("victim", 4, node="n1", preempted=True, terminating=True)
    assert not is_taken(victim, pod("urgent", 6, nominated="n1", priority=10))
    assert is_taken(victim, pod("urgent", 7, nominated="n1", priority=10))


class _Extender:
    name, incarnation = "extender of replica-a", 1

    def __init__(self, snapshot: Snapshot) -> None:
        self.live: Any = self
        self.ledger: Any = self
        self.snapshot = snapshot


def heard(monkeypatch: Any, *snapshots: Snapshot) -> list[str]:
    """Return the violations of S18 that are found if a process has these snapshots, each a second longer than the limit
    after the one before.
    """
    found: list[str] = []
    rule = HeardRefusals(found.append)
    for index, snapshot in enumerate(snapshots):
        monkeypatch.setattr(shown, "loop_time", lambda at=index: at * (HEARD_SECONDS + 1))
        rule.stepped(cast(Any, _Extender(snapshot)))
    return found


def refused(**gang: Any) -> Snapshot:
    snapshot = known(**gang)
    return replace(snapshot, pods={"m": replace(MEMBER, refused=True, refusal=REFUSAL)})


def test_a_plan_that_goes_on_against_a_refusal_is_found(monkeypatch: Any) -> None:
    assert len(heard(monkeypatch, known(), refused(), refused())) == 1


def test_a_plan_that_is_made_anew_or_given_up_has_heard(monkeypatch: Any) -> None:
    assert heard(monkeypatch, known(), refused(plan="2"), refused(plan="2")) == []
    assert heard(monkeypatch, known(), refused(), refused(nodes={})) == []


def test_what_was_refused_before_the_process_knew_the_pod_is_no_news(monkeypatch: Any) -> None:
    assert heard(monkeypatch, refused(), refused(), refused()) == []
