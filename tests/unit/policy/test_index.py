"""What a snapshot takes over from the one before (index, free room, cached answers) never states the old facts."""

from __future__ import annotations

from dataclasses import replace

from policy.cluster.draft import Draft
from policy.cluster.gang import Gang
from policy.cluster.index import Index
from policy.cluster.snapshot import Snapshot
from policy.placement.gang import ask_of
from policy.placement.room import Room
from tests.builders import World, guest, job, node, res


def test_a_snapshot_made_by_hand_has_the_index_of_its_own_maps() -> None:
    live = World().nodes("n1")
    live.submit(job("a").workers(9))
    other = replace(live.snapshot, jobs={})
    assert live.snapshot.index.waiting == ("job-a",)
    assert other.index.waiting == ()
    assert other.index == Index.of(other)


def test_an_answer_on_a_changed_copy_is_not_given_for_the_live_state() -> None:
    live = World().nodes("n1")
    live.submit(job("a").ps(1).workers(9))
    before = live.snapshot
    draft = Draft(before)
    draft.put_job(replace(before.jobs["job-a"], roles=before.jobs["job-a"].roles[1:]))
    after = draft.freeze()
    assert not ask_of(after, after.jobs["job-a"], 2).rigid
    assert ask_of(before, before.jobs["job-a"], 2).rigid


def test_the_room_of_a_plan_is_charged_as_long_as_the_gang_has_it() -> None:
    live = World().nodes("n1")
    live.submit(job("a").workers(2, cpu=3))
    assert live.snapshot.free("n1")["cpu"] == 4_000
    draft = Draft(live.snapshot)
    draft.put_gang(Gang("job-a"))
    given_up = draft.freeze()
    assert given_up.free("n1")["cpu"] == 10_000
    draft = Draft(given_up)
    draft.put_gang(live.gang("a"))
    assert draft.freeze().free("n1")["cpu"] == 4_000


def test_free_room_follows_other_pods_and_nodes() -> None:
    live = World().nodes("n1", "n2", node("n3", cpu=4))
    live.see(guest("g", "n2", cpu=3))
    live.see(replace(live.snapshot.nodes["n1"], unschedulable=True))
    room = Room.of(live.snapshot)
    assert list(room) == ["n2", "n3"]
    assert room.free("n2")["cpu"] == 7_000
    assert room.fitting(res(4)) == ["n2", "n3"]
    trial = room.branch()
    trial.take("n2", res(5))
    assert (trial.fitting(res(4)), room.fitting(res(4))) == (["n3"], ["n2", "n3"])


def test_an_empty_snapshot_has_no_room() -> None:
    assert Room.of(Snapshot()).fitting(res(1)) == []
