"""Any trace may be given other speeds by their name."""

from pathlib import Path

import pytest

from lab.sim.fluid.link import SharedLinks
from lab.sim.fluid.speedmodels import Linear, Saturating, SharedCpu
from lab.study.scenes import scene
from lab.study.specs import spec
from lab.study.studyerrors import StudyError
from tests.unit.study.asking import kohort, mean

OWN = """name,arrival_seconds,workers,min_workers,max_workers,worker_millicores,worker_memory_bytes,work_seconds,model
a,0,2,2,2,1000,1000,600,AlexNet
b,0,2,2,2,1000,1000,600,{model}
"""
POLLUX = "name,time,application,num_replicas,batch_size\na,0,bert,1,12\n"


def own(folder: Path, model: str = "ResNet-50") -> str:
    (folder / "jobs.csv").write_text(OWN.format(model=model))
    return f"{folder}/jobs.csv,nodes=1x10x32"


def test_a_file_has_the_speeds_that_it_is_given(tmp_path: Path) -> None:
    """Two jobs of two workers share a node; under DRAGON's table each worker gets a quarter of its speed."""
    trace = own(tmp_path)
    for name, model in (("linear", Linear()), ("shared-cpu", SharedCpu()), ("shared-links", SharedLinks())):
        assert scene(spec(f"{trace},speeds={name}", ""), 0).settings.speeds == model
    times = {name: mean("mean_jct_seconds", "fifo", f"{trace},speeds={name}") for name in ("linear", "shared-cpu")}
    assert times == pytest.approx({"linear": 301.0, "shared-cpu": 1201.0})
    table = [600 / (59.10 / 38.09) + 1, 600 / (176.65 / 115.06) + 1]
    assert mean("mean_jct_seconds", "fifo", f"{trace},speeds=shared-links") == pytest.approx(sum(table) / 2)
    plain = mean("mean_jct_seconds", "fifo", trace)
    assert mean("mean_jct_seconds", "fifo", f"{trace},speeds=saturating") == plain == pytest.approx(600 / (2 / 1.1) + 1)


def test_so_has_a_trace_with_speeds_of_its_own() -> None:
    assert scene(spec("dragon-table-1,speeds=saturating", ""), 0).settings.speeds == Saturating()
    assert scene(spec("oasis,jobs=2,servers=2,speeds=shared-cpu", ""), 0).settings.speeds == SharedCpu()
    pods = kohort("simulate", "--policy", "kod2", "--trace", "dragon-table-1,speeds=saturating", "--pods")
    assert pods.exit_code == 0


@pytest.mark.parametrize("model", ["LeNet", ""])
def test_a_model_that_dragons_table_does_not_have_is_told_with_its_line(tmp_path: Path, model: str) -> None:
    with pytest.raises(StudyError) as error:
        scene(spec(f"{own(tmp_path, model)},speeds=shared-links", ""), 0)
    said = f"jobs.csv, line 3: model: '{model}' is not allowed; allowed: AlexNet or InceptionV3 or ResNet-50"
    assert said in str(error.value)


WRONG = {
    "kod2,speeds=fast": "speeds: 'fast' is not allowed; allowed: saturating or shared-links or shared-cpu or linear",
    "kod2,speeds=none": "speeds: None is not allowed; allowed: saturating or shared-links",
    "kod2,speeds=shared-links": "speeds: the trace's jobs name no model; use a trace whose jobs do",
    "kod2,speeds=linear,step_times=x": "speeds: 'linear' is not allowed; allowed: no speeds beside step_times",
}


@pytest.mark.parametrize(("trace", "said"), WRONG.items(), ids=WRONG.keys())
def test_what_is_wrong_is_told(trace: str, said: str) -> None:
    with pytest.raises(StudyError) as error:
        scene(spec(trace, ""), 0)
    assert said in str(error.value)


def test_a_format_of_other_models_is_told(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(POLLUX)
    with pytest.raises(StudyError, match=r"application: the speeds have none of cifar10, .*; use speeds that have one"):
        scene(spec(f"{tmp_path}/jobs.csv,speeds=shared-links", ""), 0)
