"""Reads trace files: CSV with a header, or JSON. Each row keeps where it stands, for what is wrong with it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from extender.study.errors import StudyError, refuse
from extender.study.specs import SEED, Spec, Value
from policy.cluster.model import Node
from policy.sim.fluid.step_times import Measured, step_times
from policy.sim.traces import Trace, TraceError, node
from policy.sim.traces.openb import openb
from policy.sim.traces.philly import philly
from policy.sim.traces.pollux import pollux
from policy.sim.traces.reading import Table, numbered
from policy.sim.traces.rows import nodes_of, trace_of

# The columns by which a format is known: those that no other has.
MARKS = {
    "kohort": {"arrival_seconds", "work_seconds"},
    "philly": {"timestamp", "num_gpus"},
    "pollux": {"application", "num_replicas"},
    "openb": {"num_gpu", "creation_time"},
}


def read_trace(spec: Spec, seed: int, models: Collection[str] | None = None) -> Trace:
    """The trace in that file (openb: a folder with nodes.csv and pods.csv). Raises StudyError.

    models: those that the jobs may be of, where the speeds are measured by model; None: a model is but a word.
    Parameters: ``format`` where the columns do not tell it, and those of the format's reader in policy/sim/traces.
    """
    path, parameters = Path(spec.name), spec.given()
    rows = _table(path / "pods.csv" if path.is_dir() else path)
    kind = parameters.pop("format", None) or _format(path, rows)
    readers: dict[object, Callable[..., Trace]] = {
        "kohort": partial(_kohort, models=models),
        "philly": lambda rows, path, **given: philly(rows, **given),
        "pollux": lambda rows, path, seed, **given: pollux(rows, **given, models=models),
        "openb": _openb,
    }
    if kind not in readers:
        raise refuse(f"{path}: format", kind, ", ".join(MARKS))
    try:
        return readers[kind](rows, path, seed=parameters.pop(SEED, seed), **parameters)
    except TraceError as error:
        raise StudyError(f"{path}: {_lines(error)}; see docs/simulator.md") from None
    except (TypeError, ValueError) as error:
        raise StudyError(f"{spec.text or spec.name}: {_said(error)}; see docs/simulator.md") from None


def measured_models(folder: str, trace: Spec) -> frozenset[str]:
    """The models that have a table in that folder; the trace may be there, too. Raises StudyError."""
    own = Path(trace.name)
    found = [path.stem for path in Path(folder).glob("*.csv") if not own.exists() or not path.samefile(own)]
    if not found:
        raise refuse(f"{trace.text or trace.name}: step_times", folder, "a folder with MODEL.csv for each model")
    return frozenset(found)


def read_step_times(folder: str, models: Iterable[str], what: str) -> Measured:
    """The speeds of these models, from MODEL.csv in that folder. Raises StudyError."""
    tables = {}
    for model in sorted(set(models)):
        if not model:
            raise StudyError(f"{what}: step_times: the trace's jobs name no model; allowed: traces whose jobs do")
        path = Path(folder) / f"{model}.csv"
        try:
            tables[model] = step_times(_table(path))
        except TraceError as error:
            raise StudyError(f"{path}: {_lines(error)}; see docs/simulator.md") from None
    return Measured(tables)


def files_of(spec: Spec) -> list[Path]:
    """Every file that may be read for the trace: its rows, its nodes, the step times of its models."""
    path, given = Path(spec.name), dict(spec.parameters)
    own = [
        path,
        path / "pods.csv",
        path / "nodes.csv",
        path.parent / "nodes.csv",
        path.parent / str(given.get("nodes")),
    ]
    folder = given.get("step_times")
    speeds = sorted(Path(str(folder)).glob("*.csv")) if folder is not None else []
    return [one for one in (*(own if path.exists() else ()), *speeds) if one.is_file()]


def seeded(spec: Spec) -> bool:
    """Whether another seed of the study draws another trace from the file."""
    given = dict(spec.parameters)
    return SEED not in given and any(name in given for name in ("sample", "node_sample"))


def _kohort(rows: Table, path: Path, seed: int, nodes: Value = None, *, models: Collection[str] | None = None) -> Trace:
    del seed
    if nodes is None and path.suffix == ".json":
        inside = _json(path)
        held = nodes_of(numbered(inside["nodes"], f"{path.name}: nodes")) if "nodes" in inside else ()
    else:
        held = _nodes(path, nodes)
    if not held:
        raise refuse(f"{path}: nodes", nodes, "a file of nodes, or COUNTxCORESxGIB or COUNTxCORESxGIBxGPUS (3x10x32x1)")
    return trace_of(rows, held, models)


def _nodes(path: Path, nodes: Value) -> tuple[Node, ...]:
    parts = str(nodes).split("x")
    if len(parts) in (3, 4) and all(part.isdigit() for part in parts):
        count, *shape = map(int, parts)
        return tuple(node(f"node-{index:0{len(str(count - 1))}d}", *shape) for index in range(count))
    return nodes_of(_table(path.parent / str(nodes))) if nodes else ()


def _openb(rows: Table, path: Path, **given: Any) -> Trace:
    beside = path if path.is_dir() else path.parent
    return openb(rows, _table(beside / "nodes.csv"), **given)


def _format(path: Path, rows: Table) -> str:
    columns = set(rows[0][1])
    found = [name for name, marks in MARKS.items() if marks & columns]
    if len(found) != 1:
        has = ", ".join(map(str, rows[0][1]))
        known = "; ".join(f"{name}: {', '.join(sorted(marks))}" for name, marks in MARKS.items())
        raise StudyError(f"{path}: its columns ({has}) are of no format; allowed: format=NAME, or columns of {known}")
    return found[0]


def _table(path: Path) -> Table:
    rows = _json_rows(path) if path.suffix == ".json" else _csv_rows(path)
    if not rows:
        raise StudyError(f"{path}: there is no row; allowed: one or more")
    return rows


def _csv_rows(path: Path) -> Table:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            return [(f"{path.name}, line {reader.line_num}", _whole(path, reader.line_num, row)) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StudyError(f"{path}: {_said(error)}; give a file that can be read") from None


def _whole(path: Path, line: int, row: dict[str | None, Any]) -> Mapping[str, object]:
    """A row with as many values as there are columns."""
    if None in row or None in row.values():
        raise StudyError(
            f"{path.name}, line {line}: it has more or fewer values than the header has columns; give it as many"
        )
    return {str(name): value for name, value in row.items()}


def _json_rows(path: Path) -> Table:
    inside = _json(path)
    jobs = inside["jobs"] if isinstance(inside, dict) and "jobs" in inside else inside
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise refuse(str(path), type(jobs).__name__, 'a list of objects, or {"nodes": [...], "jobs": [...]}')
    return numbered(jobs, path.name)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StudyError(f"{path}: {_said(error)}; give a file that can be read") from None


def _said(error: BaseException) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _lines(error: TraceError) -> str:
    text = str(error)
    return f"\n{text}" if "\n" in text else text
