"""Tests of kept scenarios: each catches its defect under every salt, and is clean without the defect."""

from __future__ import annotations

import random
import re
from collections.abc import Coroutine
from typing import Any, Final

import pytest
from pydantic import ValidationError

from lab.virtual.clocks import SimLoop, sleep
from tests.simulation.catching import judge_gate
from tests.simulation.faults import ANY, DrawnFault, RunLog, plain
from tests.simulation.keeping import NotKeptError, check_clean, keep, smallest, smallest_that_fails
from tests.simulation.kept import KeptScenario, names, read
from tests.simulation.keptfaults import PATIENCE, KeptFaults
from tests.simulation.mutants import MUTANTS, switched_on

RULE: Final = re.compile(r"([SL]\d+[ab]?|ledger): ")
GATE_SALT: Final = "gate"  # `make test` uses this one.
# `make full` uses these, and none; they are not the salts under which the scenarios were chosen.
SALTS: Final = ("", "v", "w", "x", "y", "z")
KEPT: Final = {name: read(name) for name in names()}
SEEDED: Final = [name for name, scenario in KEPT.items() if scenario.defect]
NOT_KEPT: Final = frozenset(
    {
        "cleanup-on-stale-cache",
        "completed-indices-not-read",
        "conditions-not-heard",
        "finished-jobs-admitted-again",
        "goes-on-too-early",
        "hold-and-wait",
        "key-is-the-name",
        "no-second-look",
        "no-wake-up",
        "nominated-pods-not-counted",
        "refusals-not-told",
        "refused-binding-keeps-its-room",
        "refused-resize-taken-for-done",
        "renewal-dated-by-its-reading",
        "repaired-gang-starves",
        "rollback-on-ambiguous-bind",
        "slot-given-again-to-the-preempted",
        "stale-deletion-costs",
        "surplus-waits-for-a-refused-shrink",
        "the-asked-node-is-bound",
        "unlisted-pod-stays-a-member",
        "wall-clock-in-a-timeout",
    }
)  # These seeded defects have no scenario.


@pytest.mark.parametrize("name", SEEDED)
def test_a_kept_scenario_catches_its_defect(name: str) -> None:
    """The defect is caught although the random streams are not the original ones."""
    assert_caught(KEPT[name], GATE_SALT)


@pytest.mark.parametrize("name", KEPT)
def test_nothing_is_violated_in_a_kept_scenario_without_its_defect(name: str) -> None:
    assert KEPT[name].play(defect="").violations == []


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", KEPT)
def test_a_kept_scenario_catches_its_defect_whatever_is_random(name: str) -> None:
    """Under every salt, the scenario fails with its defect and passes without it: jobs, settings and faults alone
    decide.
    """
    for salt in SALTS:
        assert KEPT[name].play(salt, defect="").violations == []
        if KEPT[name].defect:
            assert_caught(KEPT[name], salt)


def assert_caught(scenario: KeptScenario, salt: str) -> None:
    found = scenario.play(salt).violations
    assert found, f"under the salt {salt!r} nothing is violated; when it was kept: {scenario.caught}"
    assert RULE.match(found[0]), found


def test_each_seeded_defect_has_a_scenario() -> None:
    """Every seeded defect except those in NOT_KEPT has a kept scenario; seeds catch the others (test_mutants.py)."""
    assert {KEPT[name].defect for name in SEEDED} == MUTANTS.keys() - NOT_KEPT


NEEDS_FAULTS: Final = ("success-after-failure", "stale-decision-lands", "users-stop-undone")


@pytest.mark.parametrize("name", NEEDS_FAULTS)
def test_a_scenario_without_its_faults_shows_nothing(name: str) -> None:
    """Without its list of faults the scenario violates nothing, so the run has no other faults."""
    assert KEPT[name].faults
    assert KEPT[name].model_copy(update={"faults": ()}).play().violations == []


def test_what_the_gate_catches_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert judge_gate(["bind-without-plan", "follower-decides"], processes=1) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["bind-without-plan", "scenario", "bind-without-plan"]
    assert lines[-1].startswith("2 of 2 seeded defects are caught")


# -- The tests below are about the list of a scenario's faults. ------------------------------------


def played(part: Coroutine[Any, Any, None]) -> None:
    loop = SimLoop()
    try:
        loop.run_until_complete(part)
    finally:
        loop.close()


def listed(*faults: DrawnFault) -> KeptFaults:
    made = KeptFaults(1, RunLog(), faults)
    made.active = True
    return made


def drawn_fault(kind: str, at: str = "", nth: int | str = 0, since: float | None = None, **values: Any) -> DrawnFault:
    return DrawnFault(random.Random(1), kind, at, nth, since, values)


LOST = ("bind-lost", "bind-500")


@pytest.mark.parametrize(
    ("one", "hit"),
    [
        (drawn_fault("bind-lost", "a", 1), [True, False, False, False]),
        (drawn_fault("bind-lost", "a", 3), [False, False, True, False]),
        (drawn_fault("bind-lost", "a", "*"), [True, True, True, True]),
        (drawn_fault("bind-lost", "b", 1), [False, False, False, False]),
        (drawn_fault("patch-lost", "a", 1), [False, False, False, False]),
    ],
    ids=["the first", "the third", "each", "another call's", "another kind's"],
)
def test_a_fault_hits_the_call_that_it_names(one: DrawnFault, hit: list[bool]) -> None:
    async def judge() -> None:
        faults = listed(one)
        assert [bool(faults.fault_at(["a"], *LOST)) for _ in hit] == hit
        assert faults.counts["bind-lost"] == sum(hit)

    played(judge())


def test_a_fault_comes_at_the_next_call_where_its_own_is_not_to_be_hit() -> None:
    """If the listed call cannot be hit (a burst of two events, or a call in the calm), the next call that can be hit
    is.
    """

    async def judge() -> None:
        faults = listed(drawn_fault("watch-late", "event", 2))
        assert not faults.fault_at(["other"], "watch-late")
        assert faults.fault_at(["event", "event", "event"], "watch-late")
        again = listed(drawn_fault("watch-late", "event", 1))
        again.active = False
        assert not again.fault_at(["event"], "watch-late")
        again.active = True
        assert again.fault_at(["event"], "watch-late")

    played(judge())


def test_a_fault_at_a_call_without_an_object_comes_from_its_second_on() -> None:
    async def judge() -> None:
        call = f"list pods{ANY}"
        faults = listed(drawn_fault("list-slow", call, since=5.0, late=2.5))
        assert not faults.fault_at([call], "list-slow")
        await sleep(5.0)
        found = faults.fault_at([call], "list-slow")
        assert found.uniform("late", 0.5, 3.0) == 2.5
        assert not faults.fault_at([call], "list-slow")

    played(judge())


def test_a_fault_by_time_waits_for_its_target_and_no_longer_than_it_may() -> None:
    async def judge() -> None:
        faults = listed(drawn_fault("pod-deleted", since=3.0, pod="a"), drawn_fault("compaction", since=4.0))
        assert faults.due() == []
        assert faults.gap(9.0, left=99.0) == 1.0
        await sleep(4.0)
        tried, done = faults.due()
        assert tried.pick("pod", ["b"], str) is None
        assert faults.due()[0].pick("pod", ["b", "a"], str) == "a"
        faults.note(done)
        assert [one.kind for one in faults.due()] == ["pod-deleted"]
        await sleep(PATIENCE)
        assert faults.due() == faults.due_in_calm() == []

    played(judge())


def test_a_name_that_a_controller_has_made_up_is_not_part_of_what_a_call_is_called() -> None:
    names = ("job-14-1-dg2zb", "job-3-cbbbbbvcb-zpdq2", "job-0-worker-0", "group-1-0", "kohort-extender")
    assert [plain(name) for name in names] == ["job-14-1", "job-3", "job-0-worker-0", "group-1-0", "kohort-extender"]


# -- The tests below are about the file of a scenario. ---------------------------------------------

NAME = next(iter(KEPT))


@pytest.mark.parametrize("name", KEPT)
def test_a_scenario_is_written_as_it_was_read(name: str) -> None:
    assert KeptScenario.model_validate_json(KEPT[name].text()) == KEPT[name]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"kind": "bind-gone", "at": "a", "nth": 1}, "'bind-gone' is no kind of fault"),
        ({"kind": "bind-lost", "nth": 1}, "at: a bind-lost has one: the call it hits"),
        ({"kind": "pod-deleted", "at": "a", "seconds": 1.0}, "at: a pod-deleted has none"),
        ({"kind": "bind-lost", "at": "a", "nth": "all"}, "nth: 'all' is neither a number from 1 on"),
        ({"kind": "bind-lost", "at": "a", "nth": -1}, "nth: -1 is neither"),
        ({"kind": "bind-lost", "at": "a"}, "either nth, of the call that it hits, or seconds"),
        ({"kind": "bind-lost", "at": "a", "nth": 1, "seconds": 2.0}, "either nth, of the call that it hits, or"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_a_fault_that_cannot_come_is_named(fault: dict[str, Any], said: str) -> None:
    changed = KEPT[NAME].model_dump(mode="json") | {"faults": [fault]}
    with pytest.raises(ValidationError, match=re.escape(said)):
        KeptScenario.model_validate(changed)


def test_a_field_that_a_scenario_has_not_is_named() -> None:
    with pytest.raises(ValidationError, match="stormy"):
        KeptScenario.model_validate(KEPT[NAME].model_dump(mode="json") | {"stormy": True})


# -- The tests below are about which scenarios are kept, and how they are made smaller. ------------


def test_what_is_not_needed_is_left_out() -> None:
    assert smallest(list(range(40)), lambda some: {7, 23} <= set(some)) == [7, 23]
    assert smallest(list(range(5)), lambda some: True) == []


def test_a_seed_that_violates_nothing_is_not_kept() -> None:
    with pytest.raises(NotKeptError, match="seed 2 violates nothing"):
        keep(2, "nothing", "")


def test_a_scenario_that_does_not_fail_is_not_made_smaller() -> None:
    harmless = KEPT[NAME].model_copy(update={"defect": ""})
    assert smallest_that_fails(harmless, longest=30.0, most_plays=3) is None


def test_a_scenario_that_fails_without_its_defect_is_not_kept() -> None:
    """A seed that fails without its defect, too, is refused, because the scenario would not show the defect."""
    with switched_on(NAME), pytest.raises(NotKeptError, match="it fails without"):
        check_clean(KEPT[NAME])
