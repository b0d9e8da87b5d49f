"""Kohort's own trace rows: written rows are read back, and each error names the place of the fault."""

import json
from dataclasses import replace
from typing import Any

import pytest

from lab.sim.traces import TraceError, kod2, node
from lab.sim.traces.kohortformat import jobs_of, nodes_of, rows, trace_of
from lab.sim.traces.reading import numbered
from policy.cluster.constraints import Constraints
from policy.cluster.job import PS, WORKER
from policy.cluster.resources import BANDWIDTH
from policy.cluster.training import Goal, Training, Utility

GOOD = rows(kod2(1).jobs)[0]


def fault(changes: dict[str, Any], **more: Any) -> str:
    """Return the error for a good row followed by one with these changes; the value None takes the column away."""
    bad = {key: value for key, value in {**GOOD, "name": "bad", **changes}.items() if value is not None}
    with pytest.raises(TraceError) as error:
        trace_of(numbered([GOOD, bad], "jobs.csv"), **more)
    return str(error.value)


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "fewer than the minimum": (
        {"workers": 1, "min_workers": 2},
        "workers: 1 is not allowed; allowed: a whole number of at least 2 (min_workers)",
    ),
    "a maximum below": (
        {"workers": 4, "max_workers": 3},
        "max_workers: 3 is not allowed; allowed: a whole number of at least 4 (workers)",
    ),
    "more workers than there are nodes in the world": (
        {"max_workers": 10**12, "workers": 4},
        f"max_workers: {10**12} is not allowed; allowed: a whole number of at least 4 (workers) and at most 100000",
    ),
    "no minimum": ({"min_workers": 0}, "min_workers: 0 is not allowed; allowed: a whole number of at least 1"),
    "no work": ({"work_seconds": 0}, "work_seconds: 0 is not allowed; allowed: a number above 0"),
    "endless work": ({"work_seconds": "inf"}, "work_seconds: 'inf' is not allowed; allowed: a number above 0"),
    "no number at all": ({"work_seconds": "nan"}, "work_seconds: 'nan' is not allowed; allowed: a number above 0"),
    "before the start": ({"arrival_seconds": -1.5}, "arrival_seconds: -1.5 is not allowed; allowed: a number of at"),
    "a word for a number": ({"ps": "one"}, "ps: 'one' is not allowed; allowed: a whole number of at least 0"),
    "half a worker": ({"workers": "4.5"}, "workers: '4.5' is not allowed; allowed: a whole number"),
    "a negative request": ({"ps_millicores": -1}, "ps_millicores: -1 is not allowed; allowed: a whole number of at"),
    "no such clean-up": ({"clean_pods": "Some"}, "clean_pods: 'Some' is not allowed; allowed: None or Running or All"),
    "neither yes nor no": ({"migratable": "perhaps"}, "migratable: 'perhaps' is not allowed; allowed: true or"),
    "a selector for no ps": (
        {"ps": 0, "ps_node_selector": "a=b"},
        "ps_node_selector: 'a=b' is not allowed; allowed: nothing, as the job has no ps",
    ),
    "half a label": (
        {"worker_node_selector": "pool"},
        "worker_node_selector: 'pool' is not allowed; allowed: KEY=VALUE, several apart by ';', each key once",
    ),
    "a column is missing": ({"arrival_seconds": None}, "arrival_seconds: this column is missing; add it"),
    "a value is missing": ({"workers": ""}, "workers: '' is not allowed; allowed: a value"),
    "a column too many": ({"gang": 1}, "gang: this column is not allowed; allowed: all_reduce, "),
    "a name twice": (
        {"name": "job-0"},
        "name: 'job-0' is not allowed; allowed: a name that no other job has (jobs.csv, row 1 has it)",
    ),
}


@pytest.mark.parametrize(("changes", "said"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_row_is_named_with_its_place_its_field_and_what_is_allowed(changes: dict[str, Any], said: str) -> None:
    assert fault(changes).startswith(f"jobs.csv, row 2: {said}")


def test_a_model_without_a_curve_is_refused() -> None:
    said = fault({"model": "LeNet"}, models=("", "AlexNet"))
    assert said == "jobs.csv, row 2: model: 'LeNet' is not allowed; allowed:  or AlexNet"


def test_a_job_that_would_not_fit_on_the_empty_cluster_is_refused() -> None:
    nodes = [node("a", 10, 32), node("b", 10, 32)]
    assert "row 2" not in str(trace_of(numbered([GOOD, {**GOOD, "name": "fits"}]), nodes))
    said = fault({"worker_millicores": 9_500, "min_workers": 2}, nodes=nodes)
    assert "jobs.csv, row 2: min_workers: '2 of 20 cpu" in said
    assert said.endswith("is not allowed; allowed: a gang that fits on the empty cluster of 2 nodes")


def test_every_faulty_row_is_told_at_once() -> None:
    table = numbered([{**GOOD, "name": str(n), "workers": 0} for n in range(30)] + [{**GOOD, "ps": -1}])
    with pytest.raises(TraceError) as error:
        jobs_of(table)
    assert len(error.value.faults) == 31
    assert "row 31: ps: -1" in error.value.faults[-1]
    assert str(error.value).splitlines()[-1] == "and 11 more"


def test_a_trace_without_jobs_is_refused() -> None:
    with pytest.raises(TraceError, match="there is no job"):
        jobs_of([])


def test_what_oasis_and_specon_need_is_read_back_too() -> None:
    curve = Utility(50.0, 4.0, 8.0)
    training = Training(3, 20, 5, 0.25, 30.5, 1.5, 10.0, curve, all_reduce=False, goal=Goal.MAX, alpha=0.2)
    job = replace(kod2(1).jobs[0], utility=3.0, model="VAE", decay=2.5, migratable=True, training=training)
    assert jobs_of(numbered(json.loads(json.dumps(rows([job]))))) == (job,)
    in_words = {name: str(value) for name, value in rows([job])[0].items()}
    assert jobs_of(numbered([in_words])) == (job,)


def test_pools_and_bandwidth_are_read_back_too() -> None:
    pool = {role: Constraints(node_selector=(("kohort.dev/pool", role), ("zone", "a"))) for role in (PS, WORKER)}
    job = kod2(1).jobs[0]
    job = replace(job, ps_elastic=True, roles=tuple(replace(r, constraints=pool[r.name]) for r in job.roles))
    assert jobs_of(numbered(rows([job]))) == (job,)
    asked = {"worker_node_selector": {"zone": "a", "kohort.dev/pool": WORKER}}  # in JSON
    assert jobs_of(numbered([{**rows([job])[0], **asked}])) == (job,)
    row = {"name": "a", "cpu_millicores": "10000", "memory_bytes": str(32 << 30), "gbps": "12.5", "labels": "a=b; c="}
    (made,) = nodes_of(numbered([row]))
    assert made.labels == {"a": "b", "c": ""}
    assert made.allocatable[BANDWIDTH] == 12_500
    assert nodes_of(numbered([{**row, "gbps": "", "labels": ""}])) == (node("a", 10, 32),)


def test_a_pool_that_no_node_is_in_is_refused() -> None:
    nodes = nodes_of(numbered([{"name": "a", "cpu_millicores": 90_000, "memory_bytes": 1 << 38, "labels": "pool=w"}]))
    assert trace_of(numbered([{**GOOD, "worker_node_selector": "pool=w"}]), nodes).nodes == nodes
    assert "min_workers: " in fault({"worker_node_selector": "pool=x"}, nodes=nodes)


@pytest.mark.parametrize("labels", ["a", "=b", "a=b;", "a=b;a=c"])
def test_labels_that_are_none_are_refused(labels: str) -> None:
    said = f"labels: {labels!r} is not allowed; allowed: KEY=VALUE, several apart by ';', each key once"
    with pytest.raises(TraceError) as error:
        nodes_of(numbered([{"name": "a", "cpu_millicores": 1, "memory_bytes": 1, "labels": labels}]))
    assert said in str(error.value)


def test_rows_of_nodes() -> None:
    row = {"name": "a", "cpu_millicores": "10000", "memory_bytes": str(32 << 30), "gpus": "1"}
    assert nodes_of(numbered([row])) == (node("a", 10, 32, 1),)
    with pytest.raises(TraceError, match="row 1: cpu_millicores: '-3' is not allowed"):
        nodes_of(numbered([{**row, "cpu_millicores": "-3"}]))
    with pytest.raises(TraceError, match=r"row 2: name: 'a' .* a name that no other node has \(row 1 has it\)"):
        nodes_of(numbered([row, row]))
