"""Trace files: formats are known by their columns; what is wrong is said with file and line."""

import json
from pathlib import Path

import pytest

from lab.papers import oasis_jobs
from lab.sim.fluid.fluidrun import simulate
from lab.sim.fluid.fluidsettings import FluidSettings
from lab.sim.fluid.speedmodels import Linear
from lab.sim.traces import Trace, kod2, node
from lab.sim.traces.kohortformat import rows
from lab.sim.traces.trace import GPU
from lab.study.specs import NamedSpec, spec
from lab.study.studyerrors import StudyError
from lab.study.tracefiles import read_trace, seeded
from policy.cluster.resources import BANDWIDTH
from policy.systems.oasis import Oasis

JOBS = """name,arrival_seconds,workers,min_workers,max_workers,worker_millicores,worker_memory_bytes,work_seconds
first,0,2,1,4,1000,1024,100
second,5.5,2,1,4,1000,1024,50
"""
NODES = "name,cpu_millicores,memory_bytes,gpus\na,10000,34359738368,1\n"
PHILLY = "timestamp,duration,num_gpus\n2020-01-01 00:00:00,10,1\n2020-01-02 00:00:00,20,2\n"
WORKLOAD = "name,time,application,num_replicas,batch_size\nbert-0,60,bert,3,384\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time\np,1000,10,1,0,9\nq,1000,10,1,2,9\n"


def read(tmp_path: Path, text: str, parameters: str = "", name: str = "jobs.csv", seed: int = 0) -> Trace:
    (tmp_path / name).write_text(text)
    given = spec(f"x{parameters}", "--trace").parameters
    return read_trace(NamedSpec(str(tmp_path / name), given), seed)


def test_kohorts_own_csv_with_its_nodes_in_a_file_beside_it_or_by_their_shape(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    trace = read(tmp_path, JOBS, ",nodes=nodes.csv")
    assert [job.name for job in trace.jobs] == ["first", "second"]
    assert trace.nodes == (node("a", 10, 32, 1),)
    assert read(tmp_path, JOBS, ",nodes=2x10x32x1").nodes == (node("node-0", 10, 32, 1), node("node-1", 10, 32, 1))


def test_kohorts_own_json(tmp_path: Path) -> None:
    given = kod2(3)
    shapes = [{"name": n.name, "cpu_millicores": 10_000, "memory_bytes": 32 << 30, "gpus": 1} for n in given.nodes]
    both = json.dumps({"nodes": shapes, "jobs": rows(given.jobs)})
    assert read(tmp_path, both, name="t.json") == given
    assert read(tmp_path, json.dumps(rows(given.jobs)), ",nodes=3x10x32x1", name="t.json") == given


def test_oasis_own_trace_can_be_written_to_files(tmp_path: Path) -> None:
    """Its two pools, bandwidths and utility curves are written; disks have no column, but limit no job
    of this trace.
    """
    drawn = oasis_jobs.trace(oasis_jobs.tiny(10, 3, 10), 1)
    shapes = [
        {
            "name": one.name,
            "cpu_millicores": one.allocatable["cpu"],
            "memory_bytes": one.allocatable["memory"],
            "gpus": one.allocatable[GPU],
            "gbps": one.allocatable[BANDWIDTH] / 1000,
            "labels": dict(one.labels),
        }
        for one in drawn.nodes
    ]
    text = json.dumps({"slot_seconds": drawn.slot_seconds, "nodes": shapes, "jobs": rows(drawn.jobs)})
    found = read(tmp_path, text, name="t.json")
    settings = FluidSettings(speeds=Linear(), start_seconds=0.0, tick_seconds=4000.0)
    same, other = (simulate(trace, Oasis(slot_seconds=4000.0), settings) for trace in (drawn, found))
    assert other.total_utility == same.total_utility > 0
    assert [job.ended for job in other.jobs] == [job.ended for job in same.jobs]


def test_other_formats_are_known_by_their_columns(tmp_path: Path) -> None:
    assert len(read(tmp_path, PHILLY, ",nodes=3,load=0.5").nodes) == 3
    assert read(tmp_path, WORKLOAD).jobs[0].model == "bert"
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn,64000,262144,2,T4\n")
    assert len(read(tmp_path, PODS, name="pods.csv").jobs) == 2
    assert read_trace(NamedSpec(str(tmp_path)), 0) == read(tmp_path, PODS, name="pods.csv")


def test_a_sample_follows_the_seed(tmp_path: Path) -> None:
    text = PHILLY + "".join(f"2020-02-{day:02d} 00:00:00,{day},1\n" for day in range(1, 29))
    one, other = (read(tmp_path, text, ",nodes=2,sample=5", seed=seed) for seed in (1, 2))
    assert one != other
    assert one == read(tmp_path, text, ",nodes=2,sample=5", seed=1)
    assert one == read(tmp_path, text, ",nodes=2,sample=5,seed=1", seed=2)
    assert seeded(spec("f,sample=5", "")) is True
    assert seeded(spec("f,nodes=5", "")) is False
    assert seeded(spec("f,sample=5,seed=1", "")) is False


WRONG = {
    "a field": (JOBS.replace("100\n", "-1\n"), ",nodes=1x9x9", "jobs.csv, line 2: work_seconds: '-1' is not allowed"),
    "two fields": (JOBS.replace(",1,4,", ",3,4,"), ",nodes=1x9x9", "jobs.csv, line 3: workers: '2' is not allowed"),
    "too large": (JOBS, ",nodes=1x1x0", "jobs.csv, line 2: min_workers: '1 of 1 cpu, 1 KiB memory' is not allowed"),
    "short row": (
        JOBS.replace(",50\n", "\n"),
        ",nodes=1x9x9",
        "jobs.csv, line 3: 7 values are not allowed; allowed: 8, as many as the header has columns; see",
    ),
    "long row": (
        JOBS.replace("50\n", "50,6,7\n"),
        ",nodes=1x9x9",
        "jobs.csv, line 3: 10 values are not allowed; allowed: 8, as many as the header has columns; see",
    ),
    "short rows": ("name,time\na\nb\n", "", "every row: 1 value is not allowed; allowed: 2, as many"),
    "column twice": (
        JOBS.replace("work_seconds", "work_seconds,workers").replace("100\n", "100,2\n").replace("50\n", "50,3\n"),
        ",nodes=1x9x9",
        "jobs.csv, line 1: header: 'workers' is not allowed; allowed: each column once",
    ),
    "half a utility": (
        JOBS.replace("work_seconds", "work_seconds,utility_target")
        .replace("100\n", "100,2\n")
        .replace("50\n", "50,\n"),
        ",nodes=1x9x9",
        "jobs.csv, line 2: utility_",
    ),
    "a day that is none": (
        PHILLY.replace("2020-01-01", "2020-02-30"),
        "",
        "jobs.csv, line 2: timestamp: '2020-02-30 00:00:00' is not allowed; allowed: a moment such as",
    ),
    "no row": ("name,time\n", "", "jobs.csv: the file has no row; allowed: one row or more"),
    "one column of openb's two": (
        "num_gpu,submit_time,iterations,model_name,duration,interval\n1,0,10,resnet50,60,10\n",
        "",
        "match no format; give format=NAME, or the columns of kohort: arrival_seconds, work_seconds; ",
    ),
    "one column of Philly's two": ("timestamp,gpus\n2020-01-01 00:00:00,1\n", "", "match no format; give"),
    "one column of Pollux's two": ("application,time\ncifar10,1\n", "", "match no format; give"),
    "columns": ("name,time\na,b\n", "", "jobs.csv: the columns (name, time) match no format; give format=NAME"),
    "format": (JOBS, ",format=xls", "jobs.csv: format: 'xls' is not allowed; allowed: kohort, philly, pollux, openb"),
    "no nodes": (JOBS, "", "jobs.csv: nodes: None is not allowed; allowed: a file of nodes, or COUNTxCORESxGIB"),
    "nodes' file": (JOBS, ",nodes=none.csv", "none.csv: No such file or directory"),
    "parameter": (
        PHILLY,
        ",lode=3",
        "parameter: 'lode' is not allowed; allowed: contention, load, nodes, sample, seed",
    ),
    "another's parameter": (WORKLOAD, ",sample=3", "parameter: 'sample' is not allowed; allowed: load, nodes"),
    "own format's parameter": (JOBS, ",load=3", "parameter: 'load' is not allowed; allowed: nodes"),
    "philly, no nodes": (PHILLY, ",nodes=0", "nodes: 0 is not allowed; allowed: a whole number of at least 1"),
    "philly, fewer nodes": (PHILLY, ",nodes=-3", "nodes: -3 is not allowed; allowed: a whole number of at least 1"),
    "philly, nodes without end": (PHILLY, f",nodes={10**12}", "of at least 1 and at most 100000"),
    "nodes without end": (JOBS, ",nodes=1000000000000x1x1", "is not allowed; allowed: 1 to 100000 nodes"),
    "a seed without end": (PHILLY, f",sample=1,nodes=0,seed={10**30}", "nodes: 0 is not allowed"),
    "philly, half nodes": (PHILLY, ",nodes=2.5", "nodes: 2.5 is not allowed; allowed: a whole number of at least 1"),
    "philly, contention": (PHILLY, ",contention=-1", "contention: -1 is not allowed; allowed: a number of at least 0"),
    "philly, sample": (PHILLY, ",sample=x", "sample: 'x' is not allowed; allowed: a whole number of at least 1"),
    "pollux, nodes": (WORKLOAD, ",nodes=0", "nodes: 0 is not allowed; allowed: a whole number of at least 1"),
    "openb, stretch": (PODS, ",stretch=0", "stretch: 0 is not allowed; allowed: a whole number of at least 1"),
    "pollux, one moment": (WORKLOAD, ",load=0.5", "jobs.csv: load: 0.5 is not allowed; allowed: no load, because"),
    "philly, a seed of nothing": (
        PHILLY,
        ",seed=3",
        "jobs.csv: seed: 3 is not allowed; allowed: a seed only together with",
    ),
    "a parameter's value": (PHILLY, ",load=0", "load: 0 is not allowed; allowed: a number above 0"),
}


@pytest.mark.parametrize(("text", "parameters", "said"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, parameters: str, said: str) -> None:
    with pytest.raises(StudyError) as error:
        read(tmp_path, text, parameters)
    assert said in str(error.value)


def test_what_is_wrong_with_openbs_nodes_is_said_of_them(tmp_path: Path) -> None:
    nodes = "sn,cpu_milli,memory_mib,gpu,model\na,9000,999,1,\na,9000,999,1,\n"
    (tmp_path / "nodes.csv").write_text(nodes)
    with pytest.raises(StudyError, match=r"nodes.csv, line 3: sn: 'a' is not allowed"):
        read(tmp_path, PODS)
    with pytest.raises(StudyError, match="node_sample: 9 is not allowed; allowed: 1 to 2"):
        read(tmp_path, PODS, ",node_sample=9")


def test_json_that_is_none_is_refused(tmp_path: Path) -> None:
    for text, said in (
        ("{", "Expecting"),
        ("3", "t.json: 3 is not allowed"),
        ('{"jobs": 3}', "a list of objects"),
        ('{"jobs": [{}, 7]}', "t.json, row 2: 7 is not allowed; allowed: an object"),
        ('{"jobs": [], "slot_second": 60}', "key: 'slot_second' is not allowed; allowed: nodes, jobs, slot_seconds"),
        ('[{"name": "a", "name": "b"}]', "a key is repeated in one object: 'name'"),
    ):
        with pytest.raises(StudyError, match=said):
            read(tmp_path, text, name="t.json")


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (["x"], "t.json: nodes, row 1: 'x' is not allowed; allowed: an object"),
        (3, "t.json: nodes: 3 is not allowed; allowed: a list of objects"),
        ([{"name": "n", "cpu_millicores": -1, "memory_bytes": 1}], "t.json: nodes, row 1: cpu_millicores: -1 is not"),
    ],
)
def test_nodes_in_json_that_are_none_are_refused(tmp_path: Path, nodes: object, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        read(tmp_path, json.dumps({"nodes": nodes, "jobs": rows(kod2(3).jobs)}), name="t.json")
