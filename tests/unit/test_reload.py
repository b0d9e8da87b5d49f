"""A settings file that changes: applied, waiting for a restart, or refused while the former settings stay."""

from __future__ import annotations

import asyncio
import math
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.clock import Clock
from extender.config.reload import NOT_INTERCHANGEABLE, RELOADABLE, Reload, changed_settings
from extender.config.settings import Settings
from extender.config.settingsfile import load_settings
from extender.state.journal import Journal
from extender.state.ledger import Ledger
from extender.state.record import Recorder, read
from policy.cluster.events import Event, JobSeen, Led, NodeSeen, PodSeen, PolicyChanged, Synced, Tick
from policy.cluster.gang import State
from policy.cluster.snapshot import Rules, Snapshot
from policy.step import step
from policy.systems import POD_BY_POD, make_policy
from policy.systems.oasis import Oasis
from tests.builders import START, World, job, members, node


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("KOHORT_"):
            monkeypatch.delenv(name)


class Followed:
    """A settings file, and the changes of it that were applied."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.path = folder / "kohort.yaml"
        self.write(**settings)
        self.applied: list[Settings] = []
        self.reload = Reload(load_settings(self.path), self.path, Clock(), self.applied.append)

    def write(self, **settings: Any) -> None:
        self.path.write_text(yaml.safe_dump(settings))

    def change(self, **settings: Any) -> list[Settings]:
        """Write the settings file again, look at it, and return what was applied."""
        self.write(**settings)
        before = len(self.applied)
        self.reload.look()
        return self.applied[before:]


def test_another_policy_is_applied(tmp_path: Path) -> None:
    followed = Followed(tmp_path, policy="kod2")
    (applied,) = followed.change(policy="drs", gate="always")
    assert (applied.policy, applied.gate, followed.reload.problem) == ("drs", "always", "")


def test_a_file_that_says_the_same_is_not_applied_again(tmp_path: Path) -> None:
    followed = Followed(tmp_path, policy="kod2")
    followed.reload.look()
    assert followed.change(policy="kod2", gate="when-queued") == []


BROKEN = {"a wrong value": {"policy": "koed2"}, "an unknown setting": {"pollicy": "kod2"}}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_a_file_that_cannot_be_used_leaves_the_old_settings_and_says_so(tmp_path: Path, broken: dict[str, Any]) -> None:
    followed = Followed(tmp_path, policy="kod2")
    assert followed.change(**broken) == []
    assert followed.reload.settings.policy == "kod2"
    assert followed.reload.problem.startswith(
        "the settings file cannot be used, so the former settings stay in force: "
    )
    assert next(iter(broken)) in followed.reload.problem
    assert followed.change(policy="drs")[0].policy == "drs"
    assert followed.reload.problem == ""


def test_a_file_that_is_gone_leaves_the_old_settings(tmp_path: Path) -> None:
    followed = Followed(tmp_path, policy="drs")
    followed.path.unlink()
    followed.reload.look()
    assert (followed.applied, followed.reload.settings.policy) == ([], "drs")
    assert "the former settings stay" in followed.reload.problem


def test_what_waits_for_a_restart_is_named_and_the_rest_is_applied(tmp_path: Path) -> None:
    followed = Followed(tmp_path)
    (applied,) = followed.change(policy="drs", barrier={"window_seconds": 6}, tick_seconds=5)
    assert (applied.policy, applied.barrier.window_seconds, applied.tick_seconds) == ("drs", 8, 10)
    assert (
        followed.reload.problem
        == "the file's values of these settings take effect at the next restart: barrier.window_seconds, tick_seconds"
    )
    followed.change(policy="drs")
    assert followed.reload.problem == ""


def test_from_gangs_to_pods_one_by_one_takes_a_restart(tmp_path: Path) -> None:
    followed = Followed(tmp_path, policy="kod2")
    other = min(POD_BY_POD)
    assert followed.change(policy=other) == []
    assert followed.reload.problem == "the file's values of these settings take effect at the next restart: policy"


def test_to_and_from_the_rival_that_keeps_a_schedule_takes_a_restart(tmp_path: Path) -> None:
    followed = Followed(tmp_path, policy="oasis")
    assert followed.change(policy="rrh") == []
    assert followed.reload.problem == "the file's values of these settings take effect at the next restart: policy"
    assert followed.change(policy="kod2")[0].policy == "kod2"


@pytest.mark.parametrize("alone", sorted(NOT_INTERCHANGEABLE))
def test_a_policy_that_takes_a_restart_takes_it_beneath_another_too(tmp_path: Path, alone: str) -> None:
    followed = Followed(tmp_path, policy="kod2")
    assert followed.change(policy=alone, rebalance="specon") == []
    assert (
        followed.reload.problem
        == "the file's values of these settings take effect at the next restart: policy, rebalance"
    )
    assert followed.change(policy=f"{alone}+guests") == []
    assert followed.change(policy="kod2", rebalance="specon")[0].rebalance == "specon"


def test_every_live_setting_is_one() -> None:
    assert set(RELOADABLE) <= set(Settings.model_fields)
    assert list(changed_settings(Settings(), Settings())) == []


GANGS = ["kod2", "drs", "dragon", "specon", "kod2+specon", "fifo", "drf", "oasis"]


@pytest.mark.parametrize("other", GANGS)
@pytest.mark.parametrize("first", GANGS)
def test_a_change_of_policy_leaves_what_runs(first: str, other: str) -> None:
    """Another policy takes over the running, waiting and growing jobs, whatever the first policy remembered of them."""
    slot = Oasis().slot_seconds
    world = World(make_policy(first), now=slot * math.ceil(START / slot)).nodes("n1", "n2")
    world.start(job("a").ps().workers(2, 4))
    world.submit(job("b").ps().workers(9).arrived(1))
    before = {
        uid: (gang.state, gang.nodes) for uid, gang in world.snapshot.gangs.items() if gang.state is State.RUNNING
    }
    assert before
    world.policy = make_policy(other)
    world.now += 1
    world.do(PolicyChanged() if other != first else Tick())
    after = {uid: world.snapshot.gangs[uid] for uid in before}
    assert {uid: gang.state for uid, gang in after.items()} == dict.fromkeys(before, State.RUNNING)
    for uid, (_, nodes) in before.items():
        assert nodes.items() <= after[uid].nodes.items() or len(after[uid].nodes) >= 2


@pytest.mark.parametrize(
    ("first", "other", "told"),
    [
        ("oasis", "oasis+specon", PolicyChanged(("oasis",))),
        ("specon", "kod2+specon", PolicyChanged(("specon",))),
        ("kod2+specon", "drs", PolicyChanged()),
        ("kod2", "kod2", Tick()),
    ],
)
def test_what_stays_of_a_policy_forgets_nothing(first: str, other: str, told: Event) -> None:
    heard: list[Event] = []
    ledger = Ledger(make_policy(first), Rules(), Clock(), Journal())
    ledger.record_with(lambda _, events, *__: heard.extend(events))
    ledger.obey(make_policy(other))
    assert heard == [told]


def test_the_journal_says_which_policy_decided(tmp_path: Path) -> None:
    """A change of policy begins a new file of the journal, and each file replays to the same decisions."""

    async def run() -> None:
        policy, rules = make_policy("kod2"), Rules()
        recorder = Recorder(tmp_path, policy, Snapshot(rules=rules), 2**20, 4)
        ledger = Ledger(policy, rules, Clock(), Journal(), record=recorder.write)
        ledger.step(NodeSeen(node("n1")), Synced(), Led(True))
        made = job("a").ps().workers(2).done()
        ledger.step(JobSeen(made), *(PodSeen(pod) for pod in members(made)))
        recorder.obey(make_policy("drs"))
        ledger.obey(make_policy("drs"))
        recorder.close()

    asyncio.run(run())
    policies, states = [], []
    for path in sorted(tmp_path.iterdir()):
        begun, steps = read(path)
        snapshot = begun.snapshot
        for one in steps:
            snapshot, _ = step(snapshot, one.events, begun.policy, one.at)
        policies.append(begun.policy)
        states.append(snapshot.gangs["job-a"].state)
    assert policies == [make_policy("kod2"), make_policy("drs")]
    assert states == [State.PLANNED, State.PLANNED]
