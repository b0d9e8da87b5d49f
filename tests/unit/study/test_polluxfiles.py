"""The folder with the data of the Pollux artifact: what is read, and what is said if a file is missing or faulty."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.study.polluxfiles import POLICIES, artifact, contents
from lab.study.studyerrors import StudyError

FILES = {
    "workloads/workload-2.csv": "name,time,application,num_replicas,batch_size\na-0,5,toy,1,10\n",
    "interpolated.csv": "application,num_nodes,num_replicas,local_bsz,step_time,sync_time\ntoy,5,5,10,2,1\n",
    "traces/toy/placements.csv": "placement,local_bsz,step_time,sync_time\n1,10,1,0\n",
    "traces/toy/validation-10.csv": "progress,iteration,metric,grad_sqr,grad_var\n50,50,0.5,1,1\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    published = json.dumps({"workloads": {"workload-2": {"jct": {"a-0": 130}}}})
    for name, text in {**FILES, **{f"results/{policy}-1.0.json": published for policy in POLICIES}}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_data_is_read(folder: Path) -> None:
    data = artifact(str(folder))
    assert data.profiles["toy"].targets == (50.0,)
    assert data.profiles["toy"].step_time((1, 1, 1, 1, 1), 10) == (2.0, 1.0)
    assert data.published["tiresias"] == {2: {"a-0": 130.0}}
    assert [(job.name, job.arrival, job.work_seconds) for job in data.workload(2).trace.jobs] == [("a-0", 5.0, 50.0)]


def test_a_changed_file_is_other_data(folder: Path) -> None:
    before = contents(str(folder))
    contents.cache_clear()
    (folder / "traces/toy/placements.csv").write_text("placement,local_bsz,step_time,sync_time\n1,10,2,0\n")
    assert contents(str(folder)) != before


FAULTS = {
    "no file at all": ("interpolated.csv", None, "interpolated.csv: No such file"),
    "a wrong placement": (
        "traces/toy/placements.csv",
        "placement,local_bsz,step_time,sync_time\n10,10,1,0\n",
        "placements.csv, line 2: placement: '10' is not allowed; allowed: the GPUs on each node",
    ),
    "no training": ("traces/toy/validation-10.csv", None, "it must have files validation-.*csv"),
    "other results": ("results/pollux-1.0.json", "[]", "the completion times must have the form"),
}


@pytest.mark.parametrize(("name", "text", "said"), FAULTS.values(), ids=FAULTS.keys())
def test_what_is_wrong_with_a_file_is_told(folder: Path, name: str, text: str | None, said: str) -> None:
    (folder / name).unlink()
    if text is not None:
        (folder / name).write_text(text)
    with pytest.raises(StudyError, match=said):
        artifact(str(folder))


def test_an_empty_folder_has_no_data(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="has no data of the Pollux artifact"):
        contents(str(tmp_path))
