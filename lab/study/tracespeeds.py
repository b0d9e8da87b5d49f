"""Choose how fast the jobs of a trace train: by a named speed model, or by measured step times."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from lab.sim.fluid.link import DRAGON, SharedLinks
from lab.sim.fluid.speedmodels import Linear, Saturating, SharedCpu, Speeds
from lab.sim.fluid.step_times import Measured, step_times
from lab.sim.traces import Trace, TraceError
from lab.study.rowfiles import lines, table
from lab.study.specs import NamedSpec, Value
from lab.study.studyerrors import StudyError, refuse

SPEEDS, STEP_TIMES = "speeds", "step_times"
KINDS: Mapping[Value, type[Saturating | SharedLinks | SharedCpu | Linear]] = {
    "saturating": Saturating,
    "shared-links": SharedLinks,
    "shared-cpu": SharedCpu,
    "linear": Linear,
}
# Speed models that do not know every training model know these.
TABLED: Mapping[Value, Collection[str]] = {"shared-links": DRAGON.keys()}


def name_of(speeds: Speeds) -> str:
    """Return the value of the parameter ``speeds`` that chooses these speeds, or ``step_times`` for measured ones."""
    return next((str(name) for name, kind in KINDS.items() if isinstance(speeds, kind)), STEP_TIMES)


def models_of(trace: NamedSpec) -> frozenset[str] | None:
    """Return the training models that the trace's jobs may have, or None if speeds do not depend on the model.

    Raises StudyError for wrong values of ``speeds`` or ``step_times``.
    """
    given, where = dict(trace.parameters), f"--trace {trace.text or trace.name}: {SPEEDS}"
    if SPEEDS not in given:
        return _measured(str(given[STEP_TIMES]), trace) if STEP_TIMES in given else None
    kind = given[SPEEDS]
    if kind not in KINDS:
        raise refuse(where, kind, " or ".join(map(str, KINDS)))
    if STEP_TIMES in given:
        raise refuse(where, kind, f"no {SPEEDS} beside {STEP_TIMES}, which give the speeds too")
    return frozenset(TABLED[kind]) if kind in TABLED else None


def speeds_of(trace: NamedSpec, read: Trace) -> Speeds | None:
    """Return the speeds that the parameters of ``trace`` choose; None: the default ones.

    read: the trace itself. Raises StudyError for a job whose model these speeds do not have.
    """
    given, what = dict(trace.parameters), trace.text or trace.name
    if STEP_TIMES in given:
        return _read(str(given[STEP_TIMES]), (job.model for job in read.jobs), what)
    if SPEEDS not in given:
        return None
    known = TABLED.get(given[SPEEDS])
    if known is not None and (other := sorted({job.model for job in read.jobs} - {*known})):
        if other == [""]:
            raise StudyError(f"{what}: {SPEEDS}: the trace's jobs name no model; use a trace whose jobs do")
        raise refuse(f"{what}: {SPEEDS}: model", other[-1], " or ".join(sorted(known)))
    return KINDS[given[SPEEDS]]()


def _measured(folder: str, trace: NamedSpec) -> frozenset[str]:
    """Return the models for which the folder has a file MODEL.csv. Raises StudyError if there is none.

    The trace's own file may be in the same folder, and is left out.
    """
    own = Path(trace.name)
    found = [path.stem for path in Path(folder).glob("*.csv") if not own.exists() or not path.samefile(own)]
    if not found:
        raise refuse(f"{trace.text or trace.name}: {STEP_TIMES}", folder, "a folder with MODEL.csv for each model")
    return frozenset(found)


def _read(folder: str, models: Iterable[str], what: str) -> Measured:
    """Return the measured speeds of these models, read from MODEL.csv in that folder. Raises StudyError.

    what: the name of the trace, for errors.
    """
    tables = {}
    for model in sorted(set(models)):
        if not model:
            raise StudyError(f"{what}: {STEP_TIMES}: the trace's jobs name no model; use a trace whose jobs do")
        path = Path(folder) / f"{model}.csv"
        try:
            tables[model] = step_times(table(path))
        except TraceError as error:
            raise StudyError(f"{path}: {lines(error)}; see docs/simulator.md") from None
    return Measured(tables)
