"""``faults=FILE``: what befalls the cluster of a trace, and what is said of a file that is wrong."""

import json
from pathlib import Path

import pytest

from lab.sim.fluid.faults import JobDeleted, NodeBack, NodeCordoned, NodeLost, PodEvicted
from lab.study.scenes import scene, stamped
from lab.study.specs import spec
from lab.study.studyerrors import StudyError
from policy.cluster.job import Slot
from tests.unit.study.asking import kohort, mean, spreads

HEADER = "seconds,what,node,job,role,index\n"
ALL = """60,NodeLost,node-0,,,
300.5,NodeBack,node-0,,,
0,NodeCordoned,node-1,,,
90,PodEvicted,,job-0,worker,1
120,JobDeleted,,job-1,,
"""


def faults(folder: Path, rows: str) -> str:
    """Write the fault file, and return the specification of KOD2's trace with these faults."""
    (folder / "faults.csv").write_text(HEADER + rows)
    return f"kod2,faults={folder}/faults.csv"


def test_every_fault_is_read_in_its_order(tmp_path: Path) -> None:
    assert scene(spec(faults(tmp_path, ALL), ""), 0).faults == (
        (60.0, NodeLost("node-0")),
        (300.5, NodeBack("node-0")),
        (0.0, NodeCordoned("node-1")),
        (90.0, PodEvicted("job-0", Slot("worker", 1))),
        (120.0, JobDeleted("job-1")),
    )


def test_the_example_in_the_documents_is_one(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "simulator.md").read_text(encoding="utf-8")
    rows = text.partition(f"```csv\n{HEADER}")[2].partition("```")[0]
    trace = faults(tmp_path, rows)
    assert len(scene(spec(trace, ""), 0).faults) == rows.count("\n") == 3
    assert mean("mean_jct_seconds", "kod2", trace) > mean("mean_jct_seconds", "kod2", "kod2")


def test_they_befall_the_run(tmp_path: Path) -> None:
    plain = spreads("kod2", "kod2")
    assert plain["finished"]["mean"] == 10
    assert mean("finished", "kod2", faults(tmp_path, "40,JobDeleted,,job-1,,\n")) == 9
    assert mean("mean_jct_seconds", "kod2", faults(tmp_path, "60,NodeLost,node-0,,,\n")) > (
        1.2 * plain["mean_jct_seconds"]["mean"]
    )
    rows = [{"seconds": 40, "what": "JobDeleted", "job": "job-1"}]
    (tmp_path / "faults.json").write_text(json.dumps(rows))
    assert mean("finished", "kod2", f"kod2,faults={tmp_path}/faults.json") == 9


def test_a_changed_file_is_another_trace(tmp_path: Path) -> None:
    before = stamped(spec(faults(tmp_path, ALL), ""))
    assert before == stamped(spec(faults(tmp_path, ALL), "")) != stamped(spec(faults(tmp_path, ALL[:23]), ""))


WRONG = {
    "a word for a time": ("soon,NodeLost,node-0,,,\n", "seconds: 'soon' is not allowed; allowed: a number of at least"),
    "before the start": ("-1,NodeLost,node-0,,,\n", "seconds: '-1' is not allowed; allowed: a number of at least 0"),
    "no such fault": (
        "1,NodeBurnt,node-0,,,\n",
        "what: 'NodeBurnt' is not allowed; allowed: NodeLost or NodeBack or NodeCordoned or PodEvicted or JobDeleted",
    ),
    "no such node": (
        "1,NodeLost,node-9,,,\n",
        "node: 'node-9' is not allowed; allowed: a node of the trace: node-0, node-1, node-2",
    ),
    "no node": ("1,NodeBack,,,,\n", "node: '' is not allowed; allowed: a value"),
    "no such job": ("1,JobDeleted,,x,,\n", "job: 'x' is not allowed; allowed: a job of the trace: job-0, job-1, job-2"),
    "no such role": ("1,PodEvicted,,job-0,chief,0\n", "role: 'chief' is not allowed; allowed: ps or worker"),
    "no such member": (
        "1,PodEvicted,,job-0,ps,1\n",
        "index: '1' is not allowed; allowed: 0 to 0, the index of a ps of job-0",
    ),
    "half a member": ("1,PodEvicted,,job-0,ps,0.5\n", "index: '0.5' is not allowed; allowed: a whole number of at"),
    "a job for a node": (
        "1,NodeLost,node-0,job-0,,\n",
        "job: 'job-0' is not allowed; allowed: no value, because a fault NodeLost has only node",
    ),
}


@pytest.mark.parametrize(("rows", "said"), WRONG.values(), ids=WRONG.keys())
def test_a_faulty_row_is_told_with_its_place(tmp_path: Path, rows: str, said: str) -> None:
    with pytest.raises(StudyError) as error:
        scene(spec(faults(tmp_path, f"1,NodeLost,node-0,,,\n{rows}"), ""), 0)
    assert f"faults.csv, line 3: {said}" in str(error.value)


def test_all_faulty_rows_are_told_at_once(tmp_path: Path) -> None:
    found = kohort("simulate", "--policy", "kod2", "--trace", faults(tmp_path, "1,x,,,,\n2,NodeLost,y,,,\n"))
    assert found.exit_code == 2
    assert "faults.csv, line 2: what: 'x'" in found.output
    assert "faults.csv, line 3: node: 'y'" in found.output


def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    for text, said in (
        ("seconds,what,who\n1,NodeLost,x\n", "line 2: who: this column is not allowed"),
        (HEADER, "the file has no row"),
    ):
        (tmp_path / "faults.csv").write_text(text)
        with pytest.raises(StudyError, match=said):
            scene(spec(f"kod2,faults={tmp_path}/faults.csv,sim.tick_seconds={len(text)}", ""), 0)
    with pytest.raises(StudyError, match=r"none\.csv: No such file"):
        scene(spec(f"kod2,faults={tmp_path}/none.csv", ""), 0)


def test_the_pod_level_world_refuses_them(tmp_path: Path) -> None:
    found = kohort("simulate", "--policy", "kod2", "--trace", faults(tmp_path, ALL), "--pods")
    assert found.exit_code == 2
    assert "--pods: the parameter: 'faults' is not allowed; allowed: no faults" in found.output
