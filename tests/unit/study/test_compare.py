"""``kohort simulate`` and ``kohort compare``: tables, files, going on, and what is said of wrong options."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest

from lab.papers import dragonworld
from lab.sim.fluid.fluidrun import simulate as simulate_fluid
from lab.sim.fluid.fluidsettings import FluidSettings
from lab.sim.traces import kod2
from lab.study import cases, comparecommand, scenes
from lab.study.donerows import code_version
from lab.study.files import ReportTarget
from lab.study.named import StudyScene
from lab.study.plots import SHOWN, draw_comparison
from lab.study.policycomparison import ComparisonLine
from lab.study.specs import NamedSpec, spec
from lab.study.stats import Spread
from lab.virtual.podrun import simulate as simulate_pods
from policy.systems import make_policy
from policy.systems.kod2 import Gate, Kod2
from tests.unit.study.asking import answer, kohort


def test_simulate_prints_every_measure_over_the_seeds() -> None:
    result = kohort("simulate", "--policy", "kod2", "--trace", "kod2", "--seeds", "3", "--first-seed", "4")
    assert result.exit_code == 0
    assert result.output.startswith("kod2 on kod2: 3 seeds\n")
    shown = {line.split()[0]: line.split()[1:] for line in result.output.splitlines()[2:]}
    runs = [simulate_fluid(kod2(seed), Kod2(), FluidSettings(patience=1800)) for seed in (4, 5, 6)]
    assert float(shown["makespan_seconds"][0]) == pytest.approx(sum(r.makespan_seconds for r in runs) / 3, rel=1e-3)
    assert float(shown["mean_jct_seconds"][3]) == pytest.approx(min(r.mean_jct_seconds for r in runs), rel=1e-3)
    assert shown["finished"] == ["10"] * 5


def test_parameters_reach_the_policy_the_trace_and_the_simulator() -> None:
    plain = answer("simulate", "--policy", "kod2", "--trace", "kod2")["lines"][0]["spreads"]
    strict = answer("simulate", "--policy", "kod2", "--set", "gate=strict", "--trace", "kod2")["lines"][0]["spreads"]
    want = simulate_fluid(kod2(0), Kod2(gate=Gate.STRICT), FluidSettings(patience=1800))
    assert strict["mean_jct_seconds"]["mean"] == want.mean_jct_seconds != plain["mean_jct_seconds"]["mean"]
    few = answer("simulate", "--policy", "kod2", "--trace", "kod2,jobs=3")["lines"][0]["spreads"]
    assert few["jobs"]["mean"] == 3
    slow = answer("simulate", "--policy", "kod2", "--set", "sim.start_seconds=100", "--trace", "kod2")
    want = simulate_fluid(kod2(0), Kod2(), FluidSettings(patience=1800, start_seconds=100))
    assert slow["lines"][0]["spreads"]["mean_jct_seconds"]["mean"] == want.mean_jct_seconds


def test_the_pod_level_world_is_at_hand() -> None:
    found = answer("simulate", "--policy", "kod2", "--trace", "kod2", "--pods")["lines"][0]["spreads"]
    assert found["mean_jct_seconds"]["mean"] == simulate_pods(kod2(0), Kod2()).mean_jct_seconds


@pytest.mark.parametrize(
    ("arguments", "error"),
    {
        "a setting of the simulator": (
            ("--trace", "kod2", "--set", "sim.grow_seconds=30"),
            "--pods: the setting: 'sim.grow_seconds' is not allowed; allowed: sim.horizon, sim.patience",
        ),
        "a setting of the trace": (
            ("--trace", "kod2,sim.tick_seconds=5,sim.patience=60"),
            "--pods: the setting: 'sim.tick_seconds' is not allowed; allowed: sim.horizon, sim.patience",
        ),
        "speeds that pods do not have": (
            ("--trace", "dragon-table-1"),
            "--pods: the speeds of dragon-table-1: 'shared-links' is not allowed; allowed: saturating",
        ),
    }.values(),
)
def test_what_the_pod_level_world_would_leave_out_is_refused(arguments: tuple[str, ...], error: str) -> None:
    found = kohort("simulate", "--policy", "kod2", "--pods", *arguments)
    assert found.exit_code == 2
    assert error in found.output


def test_dorm_is_compared_by_its_name() -> None:
    pytest.importorskip("scipy", reason="the extra sim is not installed")
    found = answer("simulate", "--policy", "dorm,fairness=0.2", "--trace", "kod2,jobs=3")["lines"][0]["spreads"]
    assert found["finished"]["mean"] == 3
    assert "dorm has no parameter 'fair'" in kohort("simulate", "--policy", "dorm,fair=1", "--trace", "kod2").output


POLLUX = "name,time,application,num_replicas,batch_size\na,0,bert,2,8\nb,10,ncf,1,8\n"
STEPS = "placement,local_bsz,step_time\n1,8,1.0\n2,8,{two}\n4,8,{two}\n"


@pytest.mark.parametrize(("two", "faster"), [(1.0, True), (2.0, False)])
def test_measured_step_times_are_the_speeds_of_a_trace(tmp_path: Path, two: float, faster: bool) -> None:
    """A worker's step lasts 1 s: if two workers also need 1 s, they train twice as fast, and at 2 s no
    faster than one.
    """
    (tmp_path / "jobs.csv").write_text(POLLUX)
    for model in ("bert", "ncf"):
        (tmp_path / f"{model}.csv").write_text(STEPS.format(two=two))
    trace = f"{tmp_path}/jobs.csv,step_times={tmp_path}"
    found = answer("simulate", "--policy", "locality-only", "--trace", trace)["lines"][0]["spreads"]
    alone = 3.8 * 3600.0  # training time of bert on one GPU
    assert (found["makespan_seconds"]["mean"] < 0.6 * alone) is faster
    assert (found["makespan_seconds"]["mean"] >= alone) is not faster


def test_a_model_without_step_times_is_told(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(POLLUX)
    (tmp_path / "bert.csv").write_text(STEPS.format(two=1.0))
    found = kohort("simulate", "--policy", "kod2", "--trace", f"{tmp_path}/jobs.csv,step_times={tmp_path}")
    assert found.exit_code == 2
    assert "jobs.csv, line 3: application: 'ncf' is not allowed; allowed: bert" in found.output
    found = kohort("simulate", "--policy", "kod2", "--trace", f"kod2,step_times={tmp_path}")
    assert "the trace's jobs name no model" in found.output


OWN = """name,arrival_seconds,workers,min_workers,max_workers,worker_millicores,worker_memory_bytes,work_seconds,model
a,0,1,1,1,1000,1000,60,bert
b,0,1,1,1,1000,1000,60,{model}
"""


@pytest.mark.parametrize("model", ["lenet", ""])
def test_a_model_that_was_not_measured_is_told_with_its_line(tmp_path: Path, model: str) -> None:
    """In a trace of Kohort's own format; a trace without step times may name any model."""
    (tmp_path / "jobs.csv").write_text(OWN.format(model=model))
    for known in ("bert", "ncf"):
        (tmp_path / f"{known}.csv").write_text(STEPS.format(two=1.0))
    trace = f"{tmp_path}/jobs.csv,nodes=2x10x32"
    found = kohort("simulate", "--policy", "kod2", "--trace", f"{trace},step_times={tmp_path}")
    assert found.exit_code == 2
    assert f"jobs.csv, line 3: model: '{model}' is not allowed; allowed: bert or ncf" in found.output
    assert answer("simulate", "--policy", "kod2", "--trace", trace)["lines"][0]["spreads"]["finished"]["mean"] == 2


def test_a_folder_without_step_times_is_told(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(POLLUX)
    found = kohort("simulate", "--policy", "kod2", "--trace", f"{tmp_path}/jobs.csv,step_times={tmp_path}/none")
    assert found.exit_code == 2
    assert "none' is not allowed; allowed: a folder with MODEL.csv" in " ".join(found.output.split())


def test_simulate_writes_runs_and_jobs(tmp_path: Path) -> None:
    arguments = ("simulate", "--policy", "kod2", "--trace", "kod2", "--seeds", "2", "--out", str(tmp_path))
    assert kohort(*arguments).exit_code == 0
    runs, jobs = (list(csv.DictReader((tmp_path / name).read_text().splitlines())) for name in ("runs.csv", "jobs.csv"))
    assert [(run["trace"], run["policy"], run["seed"], run["finished"]) for run in runs] == [
        ("kod2", "kod2", "0", "10"),
        ("kod2", "kod2", "1", "10"),
    ]
    assert len(jobs) == 20
    mean = sum(float(job["jct_seconds"]) for job in jobs if job["seed"] == "1") / 10
    assert mean == pytest.approx(float(runs[1]["mean_jct_seconds"]))
    assert json.loads((tmp_path / "comparison.json").read_text())["lines"][0]["seeds"] == 2


def test_figures_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra sim is not installed")
    kohort("simulate", "--policy", "kod2", "--trace", "kod2", "--out", str(tmp_path))
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("comparison.png", "jct.png"))


def test_the_figure_shows_the_resource_of_which_most_is_used() -> None:
    """The resource is chosen by trace over all policies; on a trace for GPUs the CPUs are nearly idle."""
    figures = pytest.importorskip("matplotlib.figure", reason="the extra sim is not installed")
    figure = figures.Figure()
    draw_comparison([line("kod2", cpu=0.1, gpu=0.7), line("fifo", cpu=0.2, gpu=0.1)], figure)
    axes = figure.axes[SHOWN.index("utilisation")]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["small: nvidia.com/gpu"]
    assert [bar.get_height() for bar in axes.patches] == [0.7, 0.1]


def line(policy: str, cpu: float, gpu: float) -> ComparisonLine:
    found = {"utilisation_cpu": cpu, "utilisation_nvidia.com/gpu": gpu}
    spreads = {name: Spread(mean, mean, mean, mean, mean) for name, mean in (dict.fromkeys(SHOWN, 1.0) | found).items()}
    return ComparisonLine("small", policy, 1, 1, spreads, {})


def test_parquet_is_written_where_pyarrow_is_installed(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    kohort("simulate", "--policy", "kod2", "--trace", "kod2", "--seeds", "2", "--out", str(tmp_path))
    assert parquet.read_table(tmp_path / "runs.parquet").column("seed").to_pylist() == [0, 1]


COMPARE = ("compare", "--policy", "kod2", "--policy", "kod2,gate=strict", "--trace", "kod2", "--trace", "kod2,jobs=4")


def test_compare_has_a_line_for_each_trace_and_policy_with_the_paired_difference() -> None:
    lines = answer(*COMPARE, "--seeds", "5")["lines"]
    assert [(line["trace"], line["policy"]) for line in lines] == [
        ("kod2", "kod2"), ("kod2", "kod2,gate=strict"), ("kod2,jobs=4", "kod2"), ("kod2,jobs=4", "kod2,gate=strict"),
    ]  # fmt: skip
    settings = FluidSettings(patience=1800)
    pairs = [
        [simulate_fluid(kod2(seed), policy, settings).mean_jct_seconds for policy in (Kod2(), Kod2(gate=Gate.STRICT))]
        for seed in range(1000, 1005)
    ]
    difference = lines[1]["differences"]["mean_jct_seconds"]
    assert difference["mean"] == pytest.approx(sum(b - a for a, b in pairs) / 5)
    assert min(b - a for a, b in pairs) <= difference["low"] < difference["mean"] < difference["high"]
    assert lines[0]["differences"] == {}


def test_compare_shows_the_measure_that_is_asked_for() -> None:
    result = kohort(*COMPARE, "--seeds", "2", "--measure", "makespan_seconds")
    assert result.exit_code == 0
    lines = [line.split() for line in result.output.splitlines()]
    assert lines[0][:5] == ["TRACE", "POLICY", "SEEDS", "MEAN", "makespan_seconds"]
    assert [line[:3] for line in lines[1:3]] == [["kod2", "kod2", "2"], ["kod2", "kod2,gate=strict", "2"]]
    assert "paired percentile bootstrap" in result.output


def test_compare_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = ("--out", str(tmp_path))
    first = answer(*COMPARE, "--seeds", "2", *out)
    done = len((tmp_path / "rows.jsonl").read_text().splitlines())
    assert done == 8
    made: list[int] = []
    real = cases.result_of

    def counted(run: cases.StudyRun, at: StudyScene) -> Any:
        made.append(run.seed)
        return real(run, at)

    monkeypatch.setattr(cases, "result_of", counted)
    again = answer(*COMPARE, "--seeds", "3", *out)
    assert made == [1002] * 4
    assert again["lines"][0]["seeds"] == 3
    assert answer(*COMPARE, "--seeds", "2", *out) == first
    assert len(made) == 4


def test_rows_of_one_simulator_are_not_taken_for_those_of_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of both simulators are in one folder, of the same policy, trace and seed."""
    monkeypatch.setattr("lab.study.files.can_draw", lambda: False)
    arguments = ("simulate", "--policy", "kod2", "--trace", "kod2,jobs=2", "--out")
    by_pod = answer(*arguments, str(tmp_path / "both"), "--pods")
    by_job = answer(*arguments, str(tmp_path / "both"))
    assert by_job == answer(*arguments, str(tmp_path / "fresh")) != by_pod


@pytest.mark.parametrize("changed", ["jobs.csv", "shape.csv", "speeds/bert.csv"])
def test_a_changed_file_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    """The results stay in one folder while the trace's rows, its nodes or its step times change."""
    monkeypatch.setattr("lab.study.files.can_draw", lambda: False)
    files = {
        "jobs.csv": (OWN.format(model="bert"), ",60,", ",90,"),
        "shape.csv": ("name,cpu_millicores,memory_bytes\nn,10000,34359738368\n", "10000", "1000"),
        "speeds/bert.csv": ("placement,local_bsz,step_time\n1,8,1.0\n", "1.0", "2.0"),
    }
    (tmp_path / "speeds").mkdir()
    for name, (text, _, _) in files.items():
        (tmp_path / name).write_text(text)
    trace = f"{tmp_path}/jobs.csv,label=t,nodes=shape.csv,step_times={tmp_path}/speeds"
    arguments = ("simulate", "--policy", "kod2", "--trace", trace, "--out", str(tmp_path / "out"))
    rows = tmp_path / "out" / "rows.jsonl"
    answer(*arguments)
    answer(*arguments)
    assert len(rows.read_text().splitlines()) == 1
    text, old, new = files[changed]
    (tmp_path / changed).write_text(text.replace(old, new))
    again = answer(*arguments)
    assert len(rows.read_text().splitlines()) == 2
    fresh = answer(*arguments[:-1], str(tmp_path / "fresh"))
    assert again == fresh


def test_a_changed_folder_of_openb_is_run_again(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu\nn,64000,262144,2\n")
    pods = "name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time\np,1000,10,1,0,9\n"
    (tmp_path / "pods.csv").write_text(pods)
    told = {scenes.stamped(NamedSpec(str(path))).contents for path in (tmp_path, tmp_path / "pods.csv")}
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu\nn,32000,262144,2\n")
    told |= {scenes.stamped(NamedSpec(str(path))).contents for path in (tmp_path, tmp_path / "pods.csv")}
    (tmp_path / "pods.csv").write_text(pods.replace(",9", ",99"))
    told.add(scenes.stamped(NamedSpec(str(tmp_path))).contents)
    assert len(told) == 5 - 2  # two pairs are equal: a folder is the same trace as the file in it
    assert scenes.stamped(NamedSpec("kod2")).contents == ""


@pytest.mark.parametrize("package", ["policy", "extender", "lab"])
def test_rows_are_of_the_code_that_makes_them(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    was = code_version.__wrapped__()
    (tmp_path / "a.py").write_text("")
    monkeypatch.setattr(f"{package}.__path__", [str(tmp_path)])
    assert code_version.__wrapped__() != was


def test_a_trace_without_chance_is_run_once(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(
        "name,arrival_seconds,workers,min_workers,max_workers,worker_millicores,worker_memory_bytes,work_seconds\n"
        "a,0,2,1,4,1000,1024,100\n"
    )
    trace = f"{tmp_path}/jobs.csv,nodes=1x10x32"
    line = answer("compare", "--policy", "kod2", "--policy", "fifo-pod", "--trace", trace)["lines"][1]
    assert line["seeds"] == 1
    assert line["spreads"]["finished"]["mean"] == 1


@pytest.mark.parametrize("first", ["locality-only", "kubeflow-spread"])
def test_a_policy_that_draws_has_its_seeds_on_a_trace_without_chance(first: str) -> None:
    """The policy without randomness is run once, and paired with each seed of the other one."""
    other = {"locality-only": "kubeflow-spread", "kubeflow-spread": "locality-only"}[first]
    found = answer("compare", "--policy", first, "--policy", other, "--trace", "dragon-table-1", "--seeds", "3")
    lines = {line["policy"]: line for line in found["lines"]}
    assert {name: line["seeds"] for name, line in lines.items()} == {"locality-only": 1, "kubeflow-spread": 3}
    table, settings = dragonworld.table_1(), dragonworld.SETTINGS
    alone = simulate_fluid(table, make_policy("locality-only"), settings).mean_jct_seconds
    drawn = [
        simulate_fluid(table, make_policy("kubeflow-spread", seed=seed), settings).mean_jct_seconds
        for seed in (1000, 1001, 1002)
    ]
    assert len(set(drawn)) > 1
    assert lines["kubeflow-spread"]["spreads"]["mean_jct_seconds"]["mean"] == pytest.approx(sum(drawn) / 3)
    difference, sign = lines[other]["differences"]["mean_jct_seconds"], 1 if first == "locality-only" else -1
    assert difference["mean"] == pytest.approx(sign * (sum(drawn) / 3 - alone))
    assert difference["low"] < difference["high"]
    assert lines[other]["pairs"] == 3


@pytest.mark.parametrize(
    ("policy", "follows"),
    {
        "fifo-pod": False,
        "fifo-pod,retry=random": True,
        "fifo-pod,retry=random,seed=3": False,
        "kubeflow-spread": True,
        "kubeflow-spread+specon": True,
        "kubeflow-spread,seed=0": False,
        "kod2": False,
    }.items(),
)
def test_which_policies_follow_the_seed(policy: str, follows: bool) -> None:
    given = spec(policy, "--policy")
    assert cases.follows_seed(given) is follows
    assert (cases.policy_of(given, 1) != cases.policy_of(given, 2)) is (follows or policy == "fifo-pod")


WRONG = {
    "policy": (("--policy", "kod3"), "kohort: --policy kod3: policy 'kod3' is not known; known are "),
    "parameter": (("--policy", "kod2,gait=x"), "kohort: --policy kod2,gait=x: kod2 has no parameter 'gait'; it has "),
    "value": (("--policy", "kod2,gate=x"), "kohort: --policy kod2,gate=x: kod2: gate is 'x', must be one of loose"),
    "form": (("--policy", "kod2,gate"), "kohort: --policy: 'gate' is not allowed; allowed: PARAMETER=VALUE"),
    "trace": (("--trace", "kod9"), "kohort: --trace: 'kod9' is not allowed; allowed: "),
    "trace's parameter": (("--trace", "kod2,job=3"), "kohort: --trace kod2,job=3: "),
    "trace's parameters": (
        ("--trace", "kod2,job=3"),
        "kohort: --trace kod2,job=3: parameter: 'job' is not allowed; allowed: contention, gap_seconds, jobs",
    ),
    "a trace with one parameter": (
        ("--trace", "dragon-table-1,jobs=3"),
        "kohort: --trace dragon-table-1,jobs=3: parameter: 'jobs' is not allowed; allowed: traffic",
    ),
    "no traffic": (
        ("--trace", "dragon-table-1,traffic=0"),
        "kohort: --trace dragon-table-1,traffic=0: traffic: 0 is not allowed; allowed: a number above 0",
    ),
    "no jobs": (("--trace", "kod2,jobs=0"), "kohort: --trace kod2,jobs=0: jobs: 0 is not allowed; allowed: a whole"),
    "backwards": (
        ("--trace", "kod2,gap_seconds=-30"),
        "kohort: --trace kod2,gap_seconds=-30: gap_seconds: -30 is not allowed; allowed: a number of at least 0",
    ),
    "contention": (("--trace", "kod2,contention=2"), "kohort: --trace kod2,contention=2: contention: 2 is not allowed"),
    "oasis, jobs": (("--trace", "oasis,jobs=0"), "kohort: --trace oasis,jobs=0: jobs: 0 is not allowed; allowed: a w"),
    "oasis, servers": (("--trace", "oasis,servers=0"), "kohort: --trace oasis,servers=0: servers: 0 is not allowed; "),
    "oasis, slots": (("--trace", "oasis,slots=0"), "kohort: --trace oasis,slots=0: slots: 0 is not allowed; allowed:"),
    "specon, jobs": (("--trace", "specon-mixed,jobs=7"), "kohort: --trace specon-mixed,jobs=7: jobs: 7 is not"),
    "who may be moved": (
        ("--trace", "kod2,migratable=3"),
        "kohort: --trace kod2,migratable=3: migratable: 3 is not al",
    ),
    "simulator": (("--set", "sim.speed=3"), "kohort: --set: 'sim.speed' is not allowed; allowed: sim."),
    "simulator's value": (("--set", "sim.patience=x"), "kohort: --set sim.patience: 'x' is not allowed; allowed: a nu"),
    "simulator's range": (("--set", "sim.patience=-1"), "kohort: --set sim: patience is -1.0, must be above 0"),
    "simulator's none": (
        ("--set", "sim.tick_seconds=none"),
        "kohort: --set sim.tick_seconds: None is not allowed; allowed: a number\n",
    ),
    "simulator's slot": (("--set", "sim.slot_seconds=inf"), "kohort: --set sim: slot_seconds is inf, must be finite"),
    "twice": (("--policy", "kod2"), "kohort: --policy: 'kod2' is not allowed; allowed: each one once"),
}


@pytest.mark.parametrize(("options", "said"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_said_before_anything_runs(options: tuple[str, ...], said: str) -> None:
    result = kohort("compare", "--policy", "kod2", "--trace", "kod2", *options)
    assert result.exit_code == 2
    assert result.output.startswith(said)
    assert "Traceback" not in result.output


def test_a_measure_that_is_none_is_refused() -> None:
    result = kohort("compare", "--policy", "kod2", "--trace", "kod2", "--measure", "happiness", "--seeds", "1")
    assert result.exit_code == 2
    assert result.output.startswith("kohort: --measure: 'happiness' is not allowed; allowed: jobs, finished, ")


@pytest.mark.parametrize("wrong", [("--measure", "happiness"), ("--json", "{tmp}/none/a.json"), ("--json", "{tmp}")])
def test_nothing_runs_for_what_cannot_be_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: tuple[str, str]
) -> None:
    monkeypatch.setattr(cases, "result_of", lambda *_: pytest.fail("it was run"))
    found = kohort("compare", "--policy", "kod2", "--trace", "kod2", wrong[0], wrong[1].format(tmp=tmp_path))
    assert found.exit_code == 2, found.output
    assert found.output.startswith(f"kohort: {wrong[0]}: ")


@pytest.mark.parametrize("arguments", [("kod2,jobs=2",), ("dragon-table-1",), ("kod2,jobs=2", "--pods")])
def test_the_measures_are_known_before_the_run(arguments: tuple[str, ...]) -> None:
    found = answer("simulate", "--policy", "locality-only", "--trace", *arguments)["lines"][0]["spreads"]
    at = scenes.scene(spec(arguments[0], "--trace"), 0)
    assert cases.measures_of(at, "--pods" in arguments) == list(found)


def test_a_file_that_can_be_written_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("old")
    for name in ("a.json", "b.json"):
        ReportTarget(str(tmp_path / name)).check()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.json": "old"}


def test_jobs_with_a_target_are_told_their_lateness_and_every_run_what_lost_jobs_cost() -> None:
    found = answer("simulate", "--policy", "fifo", "--trace", "oasis,jobs=3,servers=20,slots=20")["lines"][0]["spreads"]
    assert math.isfinite(found["mean_lateness_slots"]["mean"])
    assert found["charged_jct_seconds"]["mean"] == found["mean_jct_seconds"]["mean"]
    plain = answer("simulate", "--policy", "kod2", "--trace", "kod2,jobs=3")["lines"][0]["spreads"]
    assert "charged_jct_seconds" in plain
    assert "mean_lateness_slots" not in plain


def test_a_measure_that_one_of_the_traces_has_not_is_refused() -> None:
    traces = ("--trace", "oasis,jobs=3,servers=20,slots=20", "--trace", "kod2,jobs=3")
    result = kohort("compare", "--policy", "fifo", *traces, "--measure", "mean_lateness_slots", "--seeds", "1")
    assert result.exit_code == 2
    assert result.output.startswith("kohort: --measure: 'mean_lateness_slots' is not allowed; allowed: jobs, ")


def test_a_trace_has_its_own_settings_of_the_simulator_and_those_of_all_win() -> None:
    def mean(*arguments: str) -> float:
        spreads = answer("simulate", "--policy", "kod2", *arguments)["lines"][0]["spreads"]
        return float(spreads["mean_jct_seconds"]["mean"])

    plain, slow = mean("--trace", "kod2"), mean("--trace", "kod2,sim.start_seconds=100")
    assert slow > plain + 50
    assert mean("--trace", "kod2,sim.start_seconds=100", "--set", "sim.start_seconds=1") == plain


def test_the_jobs_of_any_trace_may_be_moved_where_the_parameter_says_so() -> None:
    def moves(trace: str) -> float:
        lines = answer("simulate", "--policy", "specon", "--trace", trace)["lines"]
        return float(lines[0]["spreads"]["moves"]["mean"])

    assert moves("specon-mixed") > 0 == moves("specon-mixed,migratable=false")
    jobs = scenes.scene(NamedSpec("dragon-table-1", (("migratable", True),)), 0).trace.jobs
    assert all(job.migratable for job in jobs)


def test_how_the_default_scheduler_spreads_and_the_traffic_of_table_1_are_parameters() -> None:
    def minutes(policy: str, trace: str) -> float:
        lines = answer("simulate", "--policy", policy, "--trace", trace)["lines"]
        return float(lines[0]["spreads"]["mean_jct_seconds"]["mean"]) / 60

    in_turn = minutes("kubeflow-spread,order=turn", "dragon-table-1")
    assert in_turn == pytest.approx(25.5, abs=0.05)  # docs/policies/dragon.md
    assert minutes("kubeflow-spread,order=turn", "dragon-table-1,traffic=0.1") < in_turn - 5.0


def test_a_label_stands_for_the_trace_in_tables() -> None:
    lines = answer("compare", "--policy", "kod2,label=ours", "--trace", "kod2,jobs=2,label=two", "--seeds", "1")[
        "lines"
    ]
    assert [(line["trace"], line["policy"]) for line in lines] == [("two", "ours")]


def test_a_label_stays_where_a_parameter_is_set() -> None:
    given = comparecommand.plan_of(["kod2,label=ours", "kod2"], ["kod2"], 0, 1, ["gate=strict"])
    assert [one.label for one in given.policies] == ["ours", "kod2,gate=strict"]
    assert [one.given() for one in given.policies] == [{"gate": "strict"}] * 2


@pytest.mark.parametrize("option", ["--policy", "--trace"])
def test_equal_labels_are_refused(option: str) -> None:
    found = kohort("compare", "--policy", "kod2,label=a", "--trace", "kod2,label=a", option, "kod2,gate=strict,label=a")
    assert found.exit_code == 2
    assert found.output.startswith(f"kohort: {option}: 'a' is not allowed; allowed: each one once, or with a label")


@pytest.mark.parametrize(
    ("name", "jobs", "seeds"), [("dragon-table-1", 12, 1), ("oasis,jobs=3,servers=5", 3, 2), ("specon-mixed", 20, 2)]
)
def test_named_traces_of_the_papers_run(name: str, jobs: int, seeds: int) -> None:
    (line,) = answer("compare", "--policy", "locality-only", "--trace", name, "--seeds", "2")["lines"]
    assert (line["spreads"]["jobs"]["mean"], line["seeds"]) == (jobs, seeds)
    assert line["spreads"]["finished"]["low"] > 0
