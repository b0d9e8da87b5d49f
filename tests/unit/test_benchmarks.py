"""The benchmarks' shared parts: the form of the JSON, the file of bounds, the command lines. No test measures."""

import importlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import bounds, command, gang_throughput, oasis_scene, scenes, simulator, verbs
from benchmarks.report import BenchmarkReport, percentile
from lab.sim.invariants import violations
from lab.sim.traces.scale import offered
from lab.sim.traces.trace import GPU
from policy.cluster.gang import State
from policy.cluster.layered import SMALL, Layered
from policy.cluster.reasons import Reason

NAMES = ("decisions", "verbs", "rebuild", "gang_throughput", "burst", "simulator", "beside", "stalled", "preemption")


def report() -> BenchmarkReport:
    made = BenchmarkReport("decisions", {"nodes": [3]})
    for value in (3.0, 1.0, 2.0):
        made.add("cost", value, "ms")
        made.ratio("cost/other", value, 2.0)
    return made


def test_the_json_has_setup_versions_spread_date_load_and_ratios(tmp_path: Path) -> None:
    report().write(tmp_path / "out.json")
    written = json.loads((tmp_path / "out.json").read_text())
    assert {"benchmark", "date", "setup", "machine", "load", "versions", "figures", "ratios"} <= set(written)
    assert written["figures"]["cost"] == {"unit": "ms", "median": 2, "low": 1, "high": 3, "rounds": [3, 1, 2]}
    assert written["ratios"] == {"cost/other": 1.0}
    assert written["ratios_spread"]["cost/other"]["high"] == 1.5


def test_percentiles_by_nearest_rank() -> None:
    ordered = [float(number) for number in range(1, 101)]
    assert (percentile(ordered, 50), percentile(ordered, 99), percentile([7.0], 99)) == (50, 99, 7)


def test_the_bounds_file_is_readable_and_names_known_benchmarks() -> None:
    found = bounds.read()
    assert set(found) <= set(NAMES)
    assert all(bound.spread[0] <= bound.mean <= bound.spread[1] for rows in found.values() for bound in rows)
    assert all(bound.holds(bound.mean) for rows in found.values() for bound in rows)


def test_a_missed_bound_is_told(tmp_path: Path) -> None:
    file = tmp_path / "bounds.toml"
    file.write_text('[decisions."cost"]\nat_most = 1.5\nmean = 1\nspread = [1, 1]\nmargin = 0.5\ndate = "2026-01-01"\n')
    lines, good = bounds.judge(report(), bounds.read(file)["decisions"])
    assert (lines, good) == (["MISS cost: 2 (bound <= 1.5)"], False)


def test_a_check_of_nothing_is_a_miss() -> None:
    assert bounds.judge(report(), [])[1] is False


def test_a_bound_has_one_side(tmp_path: Path) -> None:
    file = tmp_path / "bounds.toml"
    file.write_text('[decisions."cost"]\nmean = 1\nspread = [1, 1]\nmargin = 0.5\ndate = "2026-01-01"\n')
    with pytest.raises(ValueError, match="either at_least or at_most"):
        bounds.read(file)


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_is_a_command(name: str) -> None:
    assert callable(importlib.import_module(f"benchmarks.{name}").main)


def test_all_of_them_are_run_by_one_command() -> None:
    """``make bench`` runs every benchmark."""
    makefile = (bounds.FILE.parents[1] / "Makefile").read_text()
    told = makefile.partition("BENCHES = ")[2].partition("\n\n")[0]
    runs = [one.split() for one in re.findall(r'"([^"]+)"', told)]
    assert {name for name, *_ in runs} == set(NAMES)


@pytest.mark.parametrize("unbound", [0, 1])
def test_a_pod_that_is_not_bound_is_a_miss(unbound: int) -> None:
    made = BenchmarkReport("gang_throughput", {"nodes": 500})
    run = gang_throughput.ThroughputRun(200.0, {"scheduler": 1.0}, 0.01, unbound, counts={"calls filter": 0.25})
    gang_throughput._note(
        made, {"plain": gang_throughput.ThroughputRun(100.0, {"scheduler": 2.0}, 2.0), "kohort": run}, 500
    )
    lines, held = bounds.judge(made, bounds.read()["gang_throughput"])
    assert held is not bool(unbound), lines


@pytest.mark.parametrize("wrong", [["--nodes", "0"], ["--rounds", "-1"], ["--nodes", "many"], ["--unknown"]])
def test_wrong_arguments_end_with_2(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.parser("verbs", "What it is.\n\nMore.", (100,), 3).parse_args(wrong)
    assert ended.value.code == 2
    assert "python -m benchmarks.verbs" in capsys.readouterr().err


def test_the_simulator_is_measured_on_a_seeded_trace_of_the_load_that_is_said() -> None:
    made = simulator.generated(10, 500)
    assert made == simulator.generated(10, 500)
    assert offered(replace(made, jobs=tuple(replace(job, contention=0.0) for job in made.jobs)), GPU) == pytest.approx(
        simulator.LOAD, rel=0.05
    )


def test_the_scenes_are_what_they_say() -> None:
    full, planned = scenes.full_cluster(3, 5), scenes.planned_cluster(3, 4)
    assert violations(full) == violations(planned) == []
    assert [full.gang(f"job-run-{n}").state for n in range(3)] == [State.RUNNING] * 3
    assert {verdict.reason for verdict in full.verdicts.values()} == {Reason.NO_ROOM}
    assert [planned.gang(f"job-plan-{n}").state for n in range(4)] == [State.PLANNED] * 4


def test_the_maps_of_a_large_scene_are_layered_as_in_a_service_that_has_run_for_a_while() -> None:
    full = scenes.full_cluster(SMALL, 0)
    maps = (full.nodes, full.jobs, full.pods, full.members, full.gangs, full.charges, full.charged)
    assert all(isinstance(entries, Layered) for entries in (*maps, full.index.listed, full.index.room.free))


def test_oasis_is_timed_once_for_each_job() -> None:
    clock = oasis_scene.timed(4, seed=1, jobs=12)
    assert len(clock.cpu) == len(clock.wall) == 12
    assert min(clock.wall) > 0


@pytest.mark.parametrize(("nodes", "good"), [(500, True), (5000, False)])
def test_what_is_asked_of_gangs_goes_by_the_size_of_the_cluster(nodes: int, good: bool) -> None:
    """Twice the plain scheduler's throughput is enough on 500 nodes and too little on 5,000."""
    made = BenchmarkReport("gang_throughput", {"nodes": nodes})
    ours = gang_throughput.ThroughputRun(200.0, {"scheduler": 1.0}, 0.01, counts={"calls filter": 0.25})
    gang_throughput._note(
        made, {"plain": gang_throughput.ThroughputRun(100.0, {"scheduler": 2.0}, 2.0), "kohort": ours}, nodes
    )
    lines, held = bounds.judge(made, bounds.read()["gang_throughput"])
    assert held is good, lines
    assert made.ratios["pods_per_second/plain"].median == 2.0
    assert any(f"pods_per_second/plain, {nodes} nodes" in line for line in lines)


def test_both_ways_to_commit_are_compared_with_the_others_and_with_each_other() -> None:
    made = BenchmarkReport("gang_throughput", {})
    rates = {"plain": 100.0, "native": 50.0, "kohort": 160.0, "kohort-all": 80.0}
    runs = {name: gang_throughput.ThroughputRun(rate, {"scheduler": 1.0}, 0.02) for name, rate in rates.items()}
    runs["kohort-all"].misreported = 3
    gang_throughput._note(made, runs, 500)
    ratios = {name: figure.median for name, figure in made.ratios.items() if "pods_per" in name and "nodes" not in name}
    assert ratios == {
        "pods_per_second/plain": 1.6, "pods_per_second/native": 3.2, "pods_per_second/kohort-all": 2.0,
        "pods_per_second, kohort-all/plain": 0.8, "pods_per_second, kohort-all/native": 1.6,
    }  # fmt: skip
    assert made.figures["pods with PodScheduled=False after 1 s, kohort-all"].median == 3


def test_filter_is_asked_with_one_name_and_with_all_of_them() -> None:
    one, every = verbs.filters(["worker-node-00007"]), verbs.cases_of(1000)
    assert one.keys() < every.keys()
    for case in ("echo", "filter, planned", "filter, refused", "filter, not opted in"):
        assert [len(json.loads(found[case][1])["NodeNames"]) for found in (one, every)] == [1, 1000]
