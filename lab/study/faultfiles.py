"""Read the file of faults that a trace's parameter ``faults`` names."""

from __future__ import annotations

from pathlib import Path

from lab.sim.fluid.faultrows import faults_of
from lab.sim.fluid.faults import Fault
from lab.sim.traces import Trace, TraceError
from lab.study.rowfiles import lines, table
from lab.study.studyerrors import StudyError

FAULTS = "faults"


def read_faults(file: str, trace: Trace) -> tuple[tuple[float, Fault], ...]:
    """Return the faults in a CSV or JSON file as (seconds after the start, fault).

    Raises StudyError, also for a fault of a node or job that the trace does not have.
    """
    path = Path(file)
    try:
        return faults_of(table(path), trace)
    except TraceError as error:
        raise StudyError(f"{path}: {lines(error)}; see docs/simulator.md") from None
