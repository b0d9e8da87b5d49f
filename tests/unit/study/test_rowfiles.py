"""Files of rows as people have them: compressed, saved by other programs, damaged, or with a wrong header."""

import gzip
import json
from pathlib import Path

import pytest

from lab.sim.traces import Trace, kod2
from lab.sim.traces.kohortformat import rows
from lab.sim.traces.trace import GPU
from lab.study.rowfiles import table
from lab.study.scenes import stamped
from lab.study.specs import NamedSpec
from lab.study.studyerrors import StudyError
from lab.study.tracefiles import files_of, read_trace
from tests.unit.sim.test_public_traces import NODES, PHILLY, PODS, PUBLISHED, WORKLOAD

COLUMNS = "name,arrival_seconds,workers,min_workers,max_workers,worker_millicores,worker_memory_bytes,work_seconds"
JOB = "job-{0},0,2,1,4,1000,1024,100\n"
JOBS = f"{COLUMNS}\n" + "".join(JOB.format(number) for number in range(5))


def read(path: Path, **parameters: int | str) -> Trace:
    return read_trace(NamedSpec(str(path), tuple(parameters.items())), 0)


def refused(path: Path, **parameters: int | str) -> str:
    """Return the error's text after the path of the file."""
    with pytest.raises(StudyError) as error:
        read(path, **parameters)
    assert str(error.value).startswith(f"{path}: "), error.value
    return str(error.value).removeprefix(f"{path}: ")


# -- The tests below are about a wrong header, which is reported only once. ------------------------

HEADERS = {
    "a column is missing": (
        JOBS.replace("workers,min", "count,min"),
        "jobs.csv, every row: workers: this column is missing; add it (the row has name, arrival_seconds, count, ",
    ),
    "several columns are missing": (
        "name,arrival_seconds,work_seconds\na,0,1\nb,0,1\n",
        "every row: workers, min_workers, max_workers, worker_millicores, worker_memory_bytes: these columns are miss",
    ),
    "a column is misspelt": (
        JOBS.replace("max_workers", "most_workers"),
        "every row: most_workers: this column is not allowed; allowed: all_reduce, ",
    ),
    "a column too many in the header": (
        JOBS.replace("work_seconds\n", "work_seconds,\n"),
        "every row: 8 values are not allowed; allowed: 9, as many as the header has columns",
    ),
    "a column too few in the header": (
        JOBS.replace("name,", ""),
        "every row: 8 values are not allowed; allowed: 7, as many as the header has columns",
    ),
    "a column that only some values need": (
        JOBS.replace("work_seconds\n", "work_seconds,ps\n").replace(",100\n", ",100,1\n"),
        "every row: ps_millicores: this column is missing; add it",
    ),
    "philly": ("timestamp,num_gpus\n" + "2020-01-01 00:00:00,1\n" * 9, "every row: duration: this column is missing"),
    "pollux": ("application,num_replicas\n" + "bert,1\n" * 9, "every row: name, time, batch_size: these columns are"),
}


@pytest.mark.parametrize(("text", "told"), HEADERS.values(), ids=HEADERS.keys())
def test_a_fault_of_the_header_is_told_once(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "jobs.csv").write_text(text)
    said = refused(tmp_path / "jobs.csv", nodes="1x9x9" if text.startswith("name") else 9)
    assert said.count(told) == 1, said
    assert len(said.splitlines()) <= 3, "one line for each fault"


def test_a_misspelt_column_is_told_as_unknown_and_as_missing(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS.replace("max_workers", "most_workers"))
    unknown, missing = refused(tmp_path / "jobs.csv", nodes="1x9x9").splitlines()[1:]
    assert unknown.startswith("jobs.csv, every row: most_workers: ")
    assert missing.startswith("jobs.csv, every row: max_workers: this column is missing")


def test_objects_of_a_list_that_lack_a_key_are_counted(tmp_path: Path) -> None:
    jobs = rows(kod2(1).jobs)
    for row in jobs[3:]:
        del row["workers"]
    (tmp_path / "t.json").write_text(json.dumps(jobs))
    said = refused(tmp_path / "t.json", nodes="3x10x32")
    assert said.startswith("t.json, row 4: workers: this column is missing; add it (the row has name, ")
    assert said.endswith(f"; {len(jobs) - 4} other rows have the same fault; see docs/simulator.md")


def test_faults_of_values_are_told_beside_one_of_the_header(tmp_path: Path) -> None:
    text = JOBS.replace("work_seconds\n", "work_seconds,colour\n").replace(",100\n", ",100,red\n")
    (tmp_path / "jobs.csv").write_text(text + "job-9,0,2,1,4,1000,1024\n")
    assert "line 7: 7 values are not allowed" in refused(tmp_path / "jobs.csv", nodes="1x9x9")


# -- The tests below are about encodings, compression and line ends of a file. ---------------------

CSV = PHILLY.encode()
SAVED = {
    "with a byte order mark": b"\xef\xbb\xbf" + CSV,
    "with Windows line ends": CSV.replace(b"\n", b"\r\n"),
    "with old Macintosh line ends": CSV.replace(b"\n", b"\r"),
    "without an end of the last line": CSV.rstrip(b"\n"),
    "with a space after each comma": CSV.replace(b",", b", "),
    "with quotes": b"".join(b'"%s"\n' % line.replace(b",", b'","') for line in CSV.splitlines()),
    "compressed": gzip.compress(CSV),
    "compressed in two parts": gzip.compress(CSV[:50]) + gzip.compress(CSV[50:]),
}


@pytest.mark.parametrize("name", ["jobs.csv", "jobs.csv.gz", "jobs"])
@pytest.mark.parametrize("data", SAVED.values(), ids=SAVED.keys())
def test_a_file_is_read_however_it_was_saved(tmp_path: Path, data: bytes, name: str) -> None:
    (tmp_path / "plain.csv").write_bytes(CSV)
    (tmp_path / name).write_bytes(data)
    assert read(tmp_path / name, nodes=2) == read(tmp_path / "plain.csv", nodes=2)


@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "t"])
@pytest.mark.parametrize("wrap", [lambda data: data, gzip.compress, lambda data: b"\xef\xbb\xbf" + data])
def test_json_is_read_however_it_was_saved(tmp_path: Path, name: str, wrap: object) -> None:
    given = kod2(3)
    shapes = [{"name": n.name, "cpu_millicores": 10_000, "memory_bytes": 32 << 30, "gpus": 1} for n in given.nodes]
    data = json.dumps({"nodes": shapes, "jobs": rows(given.jobs)}, indent="\t").encode()
    (tmp_path / name).write_bytes(wrap(data))  # type: ignore[operator]
    assert read(tmp_path / name) == given


UNREADABLE = {
    "empty": (b"", "the file has no row; allowed: one row or more"),
    "empty lines": (b"\n\n", "jobs.csv, line 1: header: '' is not allowed; allowed: names of columns"),
    "a picture": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "it is not UTF-8 text (byte 1); give a CSV or JSON file"),
    "UTF-16": (PHILLY.encode("utf-16"), "it is not UTF-8 text (byte 1)"),
    "zero bytes": (b"a,b\n\0\0,1\n", "it has zero bytes and is not text"),
    "half of gzip": (gzip.compress(CSV)[:60], "its gzip data is cut off or damaged; give a whole file"),
    "the start of gzip": (b"\x1f\x8b", "its gzip data is cut off or damaged"),
    "damaged gzip": (gzip.compress(CSV)[:-8] + b"\1" * 8, "its gzip data is cut off or damaged"),
    "a picture in gzip": (gzip.compress(b"\x89PNG"), "it is not UTF-8 text (byte 1)"),
    "an open quote": (b'a,b\n"1,2\n', "not CSV: unexpected end of data"),
    "deep JSON": (b"[" * 100_000, "its brackets are nested too deeply"),
    "no JSON": (b"{'a': 1}", "not JSON: Expecting property name"),
    "an object for a list": (b'{"a": 1}', "{'a': 1} is not allowed; allowed: a list of objects, or {\"nodes\": [...]"),
    "a list of lists": (b"[[1]]", "[1] is not allowed; allowed: an object"),
    "an empty list": (b"[]", "the file has no row; allowed: one row or more"),
    "semicolons": (CSV.replace(b",", b";"), "the columns (timestamp;duration;num_gpus;gpu_time;cluster) match no form"),
    "Philly's log as published": (
        b'[{"status": "Pass", "vc": "v", "jobid": "j", "attempts": [], "submitted_time": "", "user": "u"}]',
        "the columns (status, vc, jobid, attempts, submitted_time, user) match no format; give format=NAME, or the",
    ),
    "openb's pods without times": (
        b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,1,1,1000\n",
        "match no format; give format=NAME, or the columns of kohort: ",
    ),
}


@pytest.mark.parametrize(("data", "told"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_is_refused(tmp_path: Path, data: bytes, told: str) -> None:
    (tmp_path / "jobs.csv").write_bytes(data)
    with pytest.raises(StudyError) as error:
        read(tmp_path / "jobs.csv")
    assert told in str(error.value)
    assert str(error.value).startswith(f"{tmp_path / 'jobs.csv'}")


def test_a_folder_for_a_file_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path) == (
        "has none of the files pods.csv, openb_pod_list_default.csv (nor one with .gz); add one, or name a file"
    )
    with pytest.raises(StudyError, match="Is a directory; give a file that can be read"):
        table(tmp_path)


# -- The tests below read the openb trace and others as they are published. ------------------------

NAMES = {
    "short": ("pods.csv", "nodes.csv"),
    "published": ("openb_pod_list_default.csv", "openb_node_list_gpu_node.csv"),
    "with all nodes": ("openb_pod_list_default.csv", "openb_node_list_all_node.csv"),
    "a sample of its pods": ("openb_pod_list_cpu050.csv", "openb_node_list_gpu_node.csv"),
}


@pytest.mark.parametrize("ends", ["", ".gz"])
@pytest.mark.parametrize(("pods", "nodes"), NAMES.values(), ids=NAMES.keys())
def test_openb_is_read_under_the_names_that_it_is_published_under(
    tmp_path: Path, pods: str, nodes: str, ends: str
) -> None:
    for name, text in ((pods, PODS), (nodes, NODES)):
        (tmp_path / f"{name}{ends}").write_bytes(gzip.compress(text.encode()) if ends else text.encode())
    trace = read(tmp_path / f"{pods}{ends}")
    assert [job.name for job in trace.jobs] == ["plain", "share", "train"]
    assert [node.allocatable[GPU] for node in trace.nodes] == [2, 0]
    assert {file.name for file in files_of(NamedSpec(str(tmp_path / f"{pods}{ends}")))} == {pods + ends, nodes + ends}
    if "cpu050" not in pods:  # a folder with this pod file is read as the whole trace
        assert read(tmp_path) == trace
        assert stamped(NamedSpec(str(tmp_path))).contents


def test_openb_without_its_nodes_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text(PODS)
    with pytest.raises(StudyError, match=r"has none of the files nodes.csv, openb_node_list_gpu_node.csv, openb_node_"):
        read(tmp_path / "pods.csv")


def test_a_header_of_openbs_nodes_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text(PODS)
    (tmp_path / "nodes.csv").write_text(NODES.replace("cpu_milli", "cpu"))
    assert "nodes.csv, every row: cpu_milli: this column is missing" in refused(tmp_path / "pods.csv")


def test_the_published_openb_trace_is_read_from_its_own_names_compressed(tmp_path: Path) -> None:
    given = PUBLISHED / "openb"
    if not given.is_dir():
        pytest.skip("the published trace openb is not on this machine")
    for short, name in zip(NAMES["short"], NAMES["published"], strict=True):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((given / short).read_bytes(), 1))
    trace = read(tmp_path)
    assert (len(trace.jobs), len(trace.nodes)) == (8152, 1213)
    assert trace == read(given)


def test_pollux_workloads_are_read_whatever_their_line_ends(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_bytes(WORKLOAD.replace("\n", "\r\n").encode("utf-8-sig"))
    assert [job.name for job in read(tmp_path / "w.csv", nodes=2).jobs] == ["cifar10-1", "bert-0"]
