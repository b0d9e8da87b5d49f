"""A trace has one slot length, for the measured delays and for each policy that plans in slots."""

import json
from pathlib import Path

import pytest

from lab.papers import oasis_jobs, oasis_world
from lab.study import comparecommand
from lab.study.cases import policy_of
from lab.study.specs import spec
from policy.systems.drs import Drs
from policy.systems.oasis import Oasis
from policy.systems.rebalanced import Rebalanced
from policy.systems.rrh import Rrh
from tests.unit.study.asking import answer, kohort, mean, spreads

PAPERS = "oasis,jobs=12,servers=5,slots=20"
COLUMNS = (
    "name,arrival_seconds,workers,min_workers,max_workers,worker_millicores,worker_memory_bytes,work_seconds,"
    "epochs,batch_seconds,utility_value,utility_steepness,utility_target"
)


def jobs(folder: Path, curves: bool = True) -> str:
    """Write a trace of two jobs with 1,800 s of work each and, with ``curves``, a utility target of one slot; return
    it.
    """
    rows = [f"{name},0,1,1,1,1000,1000,1800,18,100,{'10,1,1' if curves else ',,'}" for name in ("a", "b")]
    (folder / "jobs.csv").write_text("\n".join([COLUMNS, *rows, ""]))
    return f"{folder}/jobs.csv,nodes=2x4x8"


@pytest.mark.parametrize("policy", ["oasis", "oasis+specon", "rrh"])
def test_a_policy_with_slots_plans_in_those_of_the_trace(policy: str) -> None:
    told = spreads(policy, PAPERS)
    assert told == spreads(f"{policy},slot_seconds=4000", PAPERS)
    assert told["finished"]["mean"] > 0


def test_the_trace_of_the_paper_is_measured_as_in_the_papers_experiment() -> None:
    """The named trace gives the paper's results if every job ends within the timespan, as later ends earn nothing.

    On this testbed RRH pauses a job, whose work would be forgotten if jobs did not report.
    """
    drawn = oasis_jobs.testbed(1002)
    for policy in (Oasis(slot_seconds=4000.0), Rrh(slot_seconds=4000.0)):
        want = oasis_world.run(drawn, policy, 2 * oasis_jobs.TESTBED_SLOTS)
        found = spreads(policy.name, "oasis-testbed", "--first-seed", "1002")
        assert found["finished"]["mean"] == want.finished > 0
        assert found["total_utility"]["mean"] == pytest.approx(want.utility)
        assert found["mean_lateness_slots"]["mean"] == pytest.approx(sum(want.lateness.values()) / want.finished)


def test_a_file_says_its_slot_by_a_parameter_or_inside(tmp_path: Path) -> None:
    """Each of the two jobs takes 1,800 s and a second to start; it ends three slots of 500 s after its first, or in
    that.
    """
    trace = jobs(tmp_path)
    assert mean("mean_lateness_slots", "fifo", f"{trace},slot_seconds=500") == 3 - 1
    assert mean("mean_lateness_slots", "fifo", f"{trace},slot_seconds=40000") == 0 - 1
    assert mean("mean_lateness_slots", "fifo", f"{trace},sim.slot_seconds=40000") == 0 - 1
    assert mean("mean_lateness_slots", "fifo", trace, "--set", "sim.slot_seconds=40000") == 0 - 1
    row = dict(zip(COLUMNS.split(","), ["a", 0, 1, 1, 1, 1000, 1000, 1800, 18, 100, 10, 1, 1], strict=True))
    node = {"name": "n", "cpu_millicores": 4000, "memory_bytes": 1 << 33}
    (tmp_path / "all.json").write_text(json.dumps({"slot_seconds": 40000, "nodes": [node], "jobs": [row]}))
    assert mean("mean_lateness_slots", "fifo", f"{tmp_path}/all.json") == 0 - 1
    assert mean("mean_lateness_slots", "fifo", f"{tmp_path}/all.json,slot_seconds=500") == 3 - 1


def test_curves_without_a_slot_are_measured_in_the_one_that_is_planned_in(tmp_path: Path) -> None:
    """The slot length is then 600 s, the default of the policies with slots, and not one second."""
    trace = jobs(tmp_path)
    assert mean("mean_lateness_slots", "fifo", trace) == mean(
        "mean_lateness_slots", "fifo", f"{trace},slot_seconds=600"
    )
    assert mean("mean_lateness_slots", "oasis", trace) < 10
    assert mean("total_utility", "oasis", trace) > 0.5
    longer = answer(
        "compare", "--policy", "oasis,slot_seconds=40000", "--policy", "fifo", "--trace", trace, "--seeds", "1"
    )["lines"]
    assert [line["spreads"]["mean_lateness_slots"]["mean"] for line in longer] == [-1, -1]


def test_another_slot_than_the_traces_is_refused(tmp_path: Path) -> None:
    found = kohort("simulate", "--policy", "oasis,slot_seconds=600", "--trace", PAPERS)
    assert found.exit_code == 2
    said = "600 is not allowed; allowed: 4000, the time slot that oasis,jobs=12,"
    assert said in found.output
    both = ("--policy", "oasis,slot_seconds=300", "--policy", "rrh,slot_seconds=400", "--trace")
    found = kohort("compare", *both, jobs(tmp_path))
    assert found.exit_code == 2
    assert "400 is not allowed; allowed: 300, because all policies on jobs.csv" in found.output
    plan = comparecommand.plan_of(["oasis,slot_seconds=300", "rrh,slot_seconds=400"], ["kod2"], 0, 1, [])
    # the jobs of this trace have no utility, so nothing is measured in slots
    assert plan.runs(plan.policies[0], plan.traces[0])[0].simulator == ()


@pytest.mark.parametrize("value", ["0", "-1", "x", "inf"])
def test_a_slot_that_is_none_is_refused(tmp_path: Path, value: str) -> None:
    found = kohort("simulate", "--policy", "fifo", "--trace", f"{jobs(tmp_path)},slot_seconds={value}")
    assert found.exit_code == 2
    assert "slot_seconds: " in found.output
    assert "allowed: a number above 0" in found.output
    row = {"arrival_seconds": 0, "work_seconds": 1}
    (tmp_path / "all.json").write_text(json.dumps({"slot_seconds": value, "nodes": [], "jobs": [row]}))
    found = kohort("simulate", "--policy", "fifo", "--trace", f"{tmp_path}/all.json,nodes=1x1x1")
    assert f"all.json: slot_seconds: '{value}' is not allowed; allowed: a number above 0" in found.output


def test_policies_take_a_slot_where_they_have_one() -> None:
    assert policy_of(spec("oasis", ""), 0, 40.0) == Oasis(slot_seconds=40.0)
    assert policy_of(spec("oasis,slot_seconds=30", ""), 0, 40.0) == Oasis(slot_seconds=30.0)
    assert policy_of(spec("drs,cooldown=9", ""), 0, 40.0) == Drs(cooldown=9.0, slot_seconds=40.0)
    assert policy_of(spec("drs", ""), 0) == Drs()
    both = policy_of(spec("oasis+specon", ""), 0, 40.0)
    assert isinstance(both, Rebalanced)
    assert both.base == Oasis(slot_seconds=40.0)
    assert policy_of(spec("kod2", ""), 0, 40.0) == policy_of(spec("kod2", ""), 0)
    assert policy_of(spec("dorm", ""), 0, 40.0) == policy_of(spec("dorm", ""), 0)
