"""The formats of public traces, in small files of our own; the published files themselves where they are at hand."""

import csv
import os
from io import StringIO
from pathlib import Path

import pytest

from lab.sim.objects import JobSpec
from lab.sim.speed import training_rate
from lab.sim.traces import Trace, TraceError
from lab.sim.traces.openb import openb
from lab.sim.traces.philly import philly
from lab.sim.traces.pollux import pollux
from lab.sim.traces.reading import Table
from lab.sim.traces.scale import offered
from lab.sim.traces.trace import GIB, GPU
from policy.cluster.constraints import Term

# Public data is not shipped; KOHORT_TRACES names its folder, else it lies beside the checkout.
PUBLISHED = Path(os.environ.get("KOHORT_TRACES", Path(__file__).parents[4] / "shared" / "data"))

PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2020-02-28 23:59:50,100,4,400,a
2020-03-01 00:00:20,60.5,1,60.5,a
2020-02-29 12:00:00,1000,8,8000,b
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
train,8000,4096,2,1000,V100|T4,LS,Running,100,400,150
share,1000,1024,1,250,,BE,Pending,10,40,
plain,1000,1024,0,0,,BE,Failed,5,5,5
"""
NODES = """sn,cpu_milli,memory_mib,gpu,model
n0,64000,262144,2,V100
n1,32000,131072,0,
"""
WORKLOAD = """name,time,application,num_replicas,batch_size
bert-0,60,bert,3,384
cifar10-1,12.5,cifar10,8,2048
"""


def table(text: str, name: str = "file.csv") -> Table:
    return [(f"{name}, line {line}", row) for line, row in enumerate(csv.DictReader(StringIO(text)), 2)]


def published(*parts: str) -> Table:
    path = PUBLISHED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"the published trace {'/'.join(parts)} is not on this machine")
    return table(path.read_text(), path.name)


def by_name(trace: Trace) -> dict[str, JobSpec]:
    return {job.name: job for job in trace.jobs}


def test_philly_is_a_worker_for_each_gpu_with_half_to_double_of_them() -> None:
    trace = philly(table(PHILLY), nodes=2, load=None)
    jobs = by_name(trace)
    assert [(job.name, job.arrival) for job in trace.jobs] == [("job-1", 0.0), ("job-3", 43_210.0), ("job-2", 86_430.0)]
    assert [(job.min_workers, job.workers, job.max_workers) for job in trace.jobs] == [(2, 4, 8), (4, 8, 16), (1, 1, 2)]
    request = jobs["job-1"].roles[0].requests
    assert (request["cpu"], request["memory"], request[GPU]) == (4000, 32 * GIB, 1)
    node = trace.nodes[0].allocatable
    assert (node["cpu"], node["memory"], node[GPU]) == (64_000, 512 * GIB, 8)


def test_a_philly_job_with_the_workers_it_asked_for_takes_as_long_as_it_took() -> None:
    for job in philly(table(PHILLY), nodes=2).jobs:
        rate = training_rate(["n"] * job.workers, (), job.contention)
        assert job.work_seconds / rate == pytest.approx({4: 100, 8: 1000, 1: 60.5}[job.workers])


def test_arrivals_are_stretched_to_the_mean_load_that_is_asked_for() -> None:
    trace = philly(table(PHILLY), nodes=2, load=0.5)
    span = trace.jobs[-1].arrival
    assert (400 + 60.5 + 8000) / (16 * span) == pytest.approx(0.5)
    assert trace.jobs[1].arrival / span == pytest.approx(43_210 / 86_430)


def test_a_sample_is_drawn_by_its_seed_and_keeps_the_order() -> None:
    rows = table("timestamp,duration,num_gpus\n" + "".join(f"2020-01-{d:02d} 00:00:00,{d},1\n" for d in range(1, 29)))
    one, same, other = (philly(rows, nodes=1, sample=10, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other
    assert len(one.jobs) == 10
    assert sorted(job.work_seconds for job in one.jobs) == [job.work_seconds for job in one.jobs]
    with pytest.raises(ValueError, match="sample: 29 is not allowed; allowed: 1 to 28"):
        philly(rows, sample=29)


def test_an_openb_pod_is_a_job_of_one_worker_on_whole_devices() -> None:
    trace = openb(table(PODS), table(NODES))
    jobs = by_name(trace)
    assert [job.name for job in trace.jobs] == ["plain", "share", "train"]
    assert [job.arrival for job in trace.jobs] == [0.0, 5.0, 95.0]
    assert {name: job.work_seconds for name, job in jobs.items()} == {"plain": 1.0, "share": 30.0, "train": 250.0}
    assert {name: job.roles[0].requests[GPU] for name, job in jobs.items()} == {"plain": 0, "share": 1, "train": 2}
    assert [term.labels[0].values for term in jobs["train"].roles[0].constraints.terms] == [("V100", "T4")]
    assert jobs["share"].roles[0].constraints.terms == tuple[Term, ...]()
    assert [(n.name, n.labels, n.allocatable[GPU]) for n in trace.nodes] == [
        ("n0", {"gpu-model": "V100"}, 2),
        ("n1", {}, 0),
    ]


def test_only_gpu_pods_of_openb_can_be_stretched() -> None:
    jobs = by_name(openb(table(PODS), table(NODES), stretch=3))
    assert {name: job.max_workers for name, job in jobs.items()} == {"train": 3, "share": 3, "plain": 1}


def test_pollux_jobs_have_the_applications_work_and_speed() -> None:
    trace = pollux(table(WORKLOAD), nodes=2)
    assert [(job.name, job.arrival, job.model) for job in trace.jobs] == [
        ("cifar10-1", 0.0, "cifar10"), ("bert-0", 47.5, "bert"),
    ]  # fmt: skip
    cifar, bert = trace.jobs
    assert (cifar.min_workers, cifar.workers, cifar.max_workers) == (4, 8, 16)
    assert (bert.min_workers, bert.workers, bert.max_workers) == (1, 3, 6)
    assert (cifar.local_batch, bert.local_batch) == (256, 128)
    assert training_rate(["n"] * 4, (), cifar.contention) == pytest.approx(3.56, abs=0.01)  # what Pollux measured


BROKEN = {
    "philly: no such day": (PHILLY.replace("2020-02-29 ", "2020-02-60 "), "line 4: timestamp: '2020-02-60 12:00:00'"),
    "philly: no moment": (PHILLY.replace("2020-02-29 12:00:00", "soon"), "line 4: timestamp: 'soon' is not allowed"),
    "philly: no GPU": (PHILLY.replace("1000,8", "1000,0"), "line 4: num_gpus: '0' is not allowed; allowed: a whole"),
    "philly: no time": (PHILLY.replace("60.5,1", "-60.5,1"), "line 3: duration: '-60.5' is not allowed"),
    "philly: no column": (PHILLY.replace("num_gpus", "gpus"), "every row: num_gpus: this column is missing"),
    "philly: too large": (PHILLY.replace("1000,8", "1000,64"), "line 4: min_workers: '32 of 128 cpu"),
}


@pytest.mark.parametrize(("text", "said"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_philly_row_is_named(text: str, said: str) -> None:
    with pytest.raises(TraceError) as error:
        philly(table(text), nodes=2)
    assert f"file.csv, {said}" in str(error.value)


def test_broken_rows_of_the_others_are_named() -> None:
    with pytest.raises(TraceError, match=r"file.csv, line 2: deletion_time: '140' is not allowed; .* least 150"):
        openb(table(PODS.replace("400,150", "140,150")), table(NODES))
    with pytest.raises(TraceError, match=r"file.csv, line 4: gpu_milli: '7' is not allowed; allowed: 0 where num_gpu"):
        openb(table(PODS.replace("0,0,", "0,7,")), table(NODES))
    with pytest.raises(TraceError, match=r"file.csv, line 2: cpu_milli: 'x' is not allowed"):
        openb(table(PODS), table(NODES.replace("64000", "x")))
    with pytest.raises(TraceError, match="line 3: application: 'gpt' is not allowed; allowed: cifar10 or ncf or"):
        pollux(table(WORKLOAD.replace("5,cifar10", "5,gpt")))
    with pytest.raises(ValueError, match="load: -1 is not allowed; allowed: a number above 0"):
        pollux(table(WORKLOAD), load=-1)


def test_the_published_philly_trace() -> None:
    trace = philly(published("philly", "jobs.csv"))
    assert len(trace.jobs) == 82_247
    assert offered(trace, GPU) == pytest.approx(0.9)
    assert (trace.jobs[0].arrival, len(trace.nodes)) == (0.0, 1000)
    assert max(job.workers for job in trace.jobs) == 128


def test_the_published_openb_trace() -> None:
    trace = openb(published("openb", "pods.csv"), published("openb", "nodes.csv"))
    assert (len(trace.jobs), len(trace.nodes)) == (8152, 1213)
    assert sum(node.allocatable[GPU] for node in trace.nodes) == 6212


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_published_pollux_workloads(number: int) -> None:
    trace = pollux(published("workloads", f"philly-{number}.csv"))
    assert len(trace.jobs) == 160
    assert {job.model for job in trace.jobs} <= {"bert", "cifar10", "deepspeech2", "imagenet", "yolov3"}
