"""The papers' traces by name are those of the papers' experiments."""

import pytest

from lab.papers import dragonworld, drs, newcomers, oasis_jobs, oasis_optimum, speconworld
from lab.sim.traces import Trace, kod2
from lab.study.named import NAMED, StudyScene
from lab.study.scenes import scene, varies
from lab.study.specs import spec
from lab.study.studyerrors import StudyError
from tests.unit.study.asking import answer

SEED = 1001
TRACES = {
    "kod2": kod2(SEED),
    "dragon-table-1": dragonworld.table_1(),
    "dragon-hundred,gap_seconds=62": dragonworld.hundred_jobs(SEED, 62.0),
    "dragon-deadlock": dragonworld.rigid_jobs(2, 5),
    "dragon-deadlock,jobs=6,workers=4": dragonworld.rigid_jobs(6, 4),
    "drs-drawn": drs.drawn_utilities(SEED),
    "drs-late": drs.late_large_job(SEED),
    "drs-loaded": drs.loaded(SEED),
    "newcomers": newcomers.newcomers(SEED),
    "specon-mixed,jobs=30": speconworld.trace_of(speconworld.MIXED[30], SEED),
    "specon-fixed": speconworld.trace_of(speconworld.FIXED, SEED),
    "specon-uneven": speconworld.trace_of(speconworld.UNEVEN, SEED),
    "specon-single": speconworld.trace_of(speconworld.SINGLE, SEED),
    "oasis,jobs=25": oasis_jobs.trace(oasis_jobs.Draw(25), SEED),
    "oasis-testbed": oasis_jobs.testbed(SEED),
    "oasis-small,servers=4": oasis_jobs.trace(oasis_optimum.CASES["4+4"], SEED),
}


def found(text: str, seed: int = SEED) -> StudyScene:
    return scene(spec(text, ""), seed)


@pytest.mark.parametrize(("name", "trace"), TRACES.items(), ids=TRACES.keys())
def test_a_name_is_the_papers_trace(name: str, trace: Trace) -> None:
    assert found(name).trace == trace
    assert varies(spec(name, "")) is (found(name, SEED + 1).trace != trace)


def test_every_name_is_held_to_its_paper() -> None:
    assert {name.partition(",")[0] for name in TRACES} == NAMED.keys()


def test_they_are_run_as_in_the_papers() -> None:
    for name in ("dragon-hundred", "dragon-deadlock", "drs-late", "newcomers"):
        assert found(name).settings == dragonworld.SETTINGS
    assert found("specon-fixed").settings == speconworld.SETTINGS
    for name in ("oasis", "oasis-testbed", "oasis-small"):
        at = found(name).settings
        assert (at.slot_seconds, at.start_seconds) == (oasis_jobs.SLOT_SECONDS, 0.0)
        assert found(f"{name},sim.slot_seconds=none").settings == at  # with `none` the trace keeps its own slot length


@pytest.mark.parametrize("name", ["dragon-deadlock,jobs=6,workers=4", "oasis-testbed", "oasis-small", "specon-fixed"])
def test_they_run(name: str) -> None:
    (line,) = answer("compare", "--policy", "drf", "--trace", name, "--seeds", "1")["lines"]
    assert line["spreads"]["finished"]["low"] > 0


@pytest.mark.parametrize(
    ("name", "said"),
    {
        "dragon-deadlock,workers=9": "workers: 9 is not allowed; allowed: a gang that fits on the 8 GPUs",
        "kod2,jobs=1000000000000": "allowed: a whole number of at least 1 and at most 100000",
        "dragon-deadlock,jobs=0": "jobs: 0 is not allowed; allowed: a whole number of at least 1",
        "dragon-hundred,gap_seconds=0": "gap_seconds: 0 is not allowed; allowed: a number above 0",
        "specon-fixed,jobs=30": "parameter: 'jobs' is not allowed; allowed: none",
        "specon-mixed,jobs=40": "jobs: 40 is not allowed; allowed: 20 or 30 or 50",
        "oasis-small,lots=2": "parameter: 'lots' is not allowed; allowed: jobs, servers, slots",
    }.items(),
)
def test_what_a_trace_does_not_have_is_told(name: str, said: str) -> None:
    with pytest.raises(StudyError) as error:
        found(name)
    assert said in str(error.value)
