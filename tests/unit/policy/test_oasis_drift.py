"""How far a job is ahead of or behind its schedule, by its own reports, as explain tells it."""

import pytest

from extender.present.explainview import explain_view
from policy.answers.explain import explain
from policy.cluster.events import Reported
from policy.cluster.training import Report
from policy.systems import make_policy
from policy.systems.base import Drift
from tests.builders import World
from tests.unit.policy.test_oasis import SLOT, counts, next_slot, run, trains, world


def scheduled() -> World:
    """Run a job of twelve worker-slots, planned as four workers in each of three slots; the first slot
    has just begun.
    """
    made, one = world(), trains("a", 12)
    made.now += SLOT - made.now % SLOT
    run(made, one)
    assert counts(made, "a") == {0: 4, 1: 4, 2: 4}
    return made


def drift(made: World) -> Drift:
    found = made.policy.against_schedule(made.snapshot, "job-a", made.now)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("done", "behind", "follows"),
    [
        (1 / 6, 0.0, ""),
        (1 / 12, 1.0, "the rest is planned again at the next time slot"),
        (0.16, 0.08, ""),  # a deviation of less than 5 % is not reported
        (0.25, -1.0, ""),
        (0.6, -5.2, "its last time slots are given back at the next time slot"),
    ],
    ids=["on it", "behind", "hardly behind", "ahead", "a slot ahead"],
)
def test_a_report_in_the_middle_of_a_slot_is_held_against_the_schedule(
    done: float, behind: float, follows: str
) -> None:
    made = scheduled()
    made.now += SLOT / 2
    made.do(Reported("job-a", Report(made.now, done=done)))
    made.now += 100
    found = drift(made)
    assert (found.scheduled, found.whole, found.at) == (10.0, 12, made.now - 100)
    assert found.behind == pytest.approx(behind)
    assert found.follows == follows


def test_a_report_of_the_slot_before_is_carried_on_to_the_beginning_of_this_one() -> None:
    made = scheduled()
    made.now += SLOT / 2
    made.do(Reported("job-a", Report(made.now, done=1 / 6)))
    next_slot(made, trains("a", 12))
    assert drift(made).needed == pytest.approx(8.0)
    assert drift(made).scheduled == 8.0


def test_what_is_told_at_the_next_slot_is_what_follows() -> None:
    made = scheduled()
    made.now += SLOT - 1
    made.do(Reported("job-a", Report(made.now, done=1 / 6)))
    assert drift(made).behind > 1.9
    next_slot(made, trains("a", 12))
    assert drift(made).behind == pytest.approx(0.0, abs=0.01)


def test_nothing_is_told_without_a_report_after_an_old_one_or_without_a_schedule() -> None:
    made = scheduled()
    assert explain(made.snapshot, "job-a", made.policy, made.now).schedule is None  # type: ignore[union-attr]
    made.do(Reported("job-a", Report(made.now + 1, metric=2.0)))
    assert made.policy.against_schedule(made.snapshot, "job-a", made.now) is None
    made.do(Reported("job-a", Report(made.now + 2, done=0.1)))
    assert made.policy.against_schedule(made.snapshot, "job-a", made.now) is not None
    assert made.policy.against_schedule(made.snapshot, "job-a", made.now + 2 * SLOT + 3) is None
    assert make_policy("kod2").against_schedule(made.snapshot, "job-a", made.now) is None


def test_a_rebalanced_system_tells_its_base_s() -> None:
    made = scheduled()
    made.do(Reported("job-a", Report(made.now + 1, done=0.1)))
    both = make_policy("oasis+specon", slot_seconds=SLOT, horizon=10)
    assert both.base.against_schedule(made.snapshot, "job-a", made.now) == drift(made)


@pytest.mark.parametrize(
    ("done", "text"),
    [
        (1 / 12, "1 worker-slot (8 % of its work) behind its schedule: it still needs 11 worker-slots, and its "
                 "schedule has 10, by its report of 100 s ago; the rest is planned again at the next time slot"),
        (0.25, "1 worker-slot (8 % of its work) ahead of its schedule: it still needs 9 worker-slots, and its "
               "schedule has 10, by its report of 100 s ago"),
        (1 / 6, "on time: it still needs 10 worker-slots, and its schedule has 10, by its report of 100 s ago"),
    ],
)  # fmt: skip
def test_explain_says_it_in_words_and_figures(done: float, text: str) -> None:
    made = scheduled()
    made.now += SLOT / 2
    made.do(Reported("job-a", Report(made.now, done=done)))
    made.now += 100
    view = explain_view(made.snapshot, made.snapshot.jobs["job-a"], made.policy, made.now).schedule
    assert view is not None
    assert view.text == text
    assert view.behind == pytest.approx(view.needed - view.scheduled, abs=0.01)
    assert view.percent == pytest.approx(100 * view.behind / 12, abs=0.1)
