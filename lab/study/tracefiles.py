"""Read trace files, CSV with a header or JSON; each row keeps its location for error messages."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

from lab.sim.traces import Trace, TraceError, node
from lab.sim.traces.kohortformat import nodes_of, trace_of
from lab.sim.traces.openb import openb
from lab.sim.traces.philly import philly
from lab.sim.traces.pollux import pollux
from lab.sim.traces.reading import FieldError, Table, TraceRow, numbered
from lab.sim.traces.reading import read as read_lines
from lab.sim.traces.scale import offered
from lab.sim.traces.trace import GPU
from lab.study.specs import SEED, NamedSpec, Value
from lab.study.studyerrors import StudyError, refuse
from lab.study.traceparameters import check
from policy.cluster.model import Node

# For each format, columns that only its files have; a file has the format whose columns it has all of.
MARKS = {
    "kohort": {"arrival_seconds", "work_seconds"},
    "philly": {"timestamp", "num_gpus"},
    "pollux": {"application", "num_replicas"},
    "openb": {"num_gpu", "creation_time"},
}


MORE = "values beyond the last column"
SLOT = "slot_seconds"
SAMPLES = frozenset({"sample", "node_sample"})  # parameters that draw some of the file's rows at random, by the seed
INSIDE = ("nodes", "jobs", SLOT)  # the keys that are allowed in a JSON file of a trace


def read_trace(spec: NamedSpec, seed: int, models: Collection[str] | None = None) -> Trace:
    """Return the trace in the file of ``spec`` (openb: a folder with nodes.csv and pods.csv). Raises StudyError.

    The spec may have the parameter ``format``, which is needed if the columns do not identify the format, and those of
    the format's reader in lab/sim/traces. ``models`` are the names of models that jobs may have, if speeds depend on
    the model; None: any.
    """
    path, parameters = Path(spec.name), spec.given()
    rows = table(path / "pods.csv" if path.is_dir() else path)
    kind = parameters.pop("format", None) or _format(path, rows)
    if kind not in READERS:
        raise refuse(f"{path}: format", kind, ", ".join(MARKS))
    reader, read = READERS[kind]
    check(reader, spec, parameters)
    if SEED in parameters and not SAMPLES & parameters.keys():
        raise refuse(f"{path}: {SEED}", parameters[SEED], f"a seed beside {' or '.join(sorted(SAMPLES))}")
    known = {"seed": seed, "models": models}
    ours = {name: known[name] for name in known.keys() & signature(reader).parameters.keys()}
    try:
        found = read(rows, path, **(ours | parameters))
    except TraceError as error:
        raise StudyError(f"{path}: {lines(error)}; see docs/simulator.md") from None
    except (TypeError, ValueError) as error:
        raise StudyError(f"{spec.text or spec.name}: {_said(error)}; see docs/simulator.md") from None
    if parameters.get("load") is not None and not offered(found, GPU):
        raise refuse(
            f"{path}: load", parameters["load"], "no load, because all jobs arrive at one moment or none asks for a GPU"
        )
    return found


def files_of(spec: NamedSpec) -> list[Path]:
    """Return every existing file that is read for the trace: its rows, nodes, faults, and step times of its models."""
    path, given = Path(spec.name), dict(spec.parameters)
    own = [
        path,
        path / "pods.csv",
        path / "nodes.csv",
        path.parent / "nodes.csv",
        path.parent / str(given.get("nodes")),
    ]
    faults = [Path(str(given["faults"]))] if "faults" in given else []
    folder = given.get("step_times")
    speeds = sorted(Path(str(folder)).glob("*.csv")) if folder is not None else []
    return [one for one in (*(own if path.exists() else ()), *faults, *speeds) if one.is_file()]


def seeded(spec: NamedSpec) -> bool:
    """Tell whether the trace depends on the study's seed, because rows of the file are drawn at random."""
    given = dict(spec.parameters)
    return SEED not in given and not SAMPLES.isdisjoint(given)


def _kohort(
    rows: Table,
    path: Path,
    nodes: Value = None,
    slot_seconds: float | None = None,
    models: Collection[str] | None = None,
) -> Trace:
    inside = _json(path) if path.suffix == ".json" else {}
    if nodes is None and "nodes" in inside:
        held = nodes_of(_objects(path, inside["nodes"], "nodes"))
    else:
        held = _nodes(path, nodes)
    if not held:
        raise refuse(f"{path}: nodes", nodes, "a file of nodes, or COUNTxCORESxGIB or COUNTxCORESxGIBxGPUS (3x10x32x1)")
    slot = _slot(path, inside) if slot_seconds is None else float(slot_seconds)
    return replace(trace_of(rows, held, models), slot_seconds=slot)


def _slot(path: Path, inside: Any) -> float | None:
    """Return the length of the time slot that the JSON file states beside its nodes and jobs, or None."""
    if not isinstance(inside, dict) or SLOT not in inside:
        return None
    return TraceRow(path.name, inside).number(SLOT, above=0.0)


def _nodes(path: Path, nodes: Value) -> tuple[Node, ...]:
    parts = str(nodes).split("x")
    if len(parts) in (3, 4) and all(part.isdigit() for part in parts):
        count, *shape = map(int, parts)
        return tuple(node(f"node-{index:0{len(str(count - 1))}d}", *shape) for index in range(count))
    return nodes_of(table(path.parent / str(nodes))) if nodes else ()


def _openb(rows: Table, path: Path, **given: Any) -> Trace:
    beside = path if path.is_dir() else path.parent
    return openb(rows, table(beside / "nodes.csv"), **given)


# For each format, the reader, whose signature has the parameters, and the function that calls it with rows and path.
READERS: Mapping[object, tuple[Callable[..., Trace], Callable[..., Trace]]] = {
    "kohort": (_kohort, _kohort),
    "philly": (philly, lambda rows, path, **given: philly(rows, **given)),
    "pollux": (pollux, lambda rows, path, **given: pollux(rows, **given)),
    "openb": (openb, _openb),
}


def _format(path: Path, rows: Table) -> str:
    columns = set(rows[0][1])
    found = [name for name, marks in MARKS.items() if marks <= columns]
    if len(found) != 1:
        has = ", ".join(map(str, rows[0][1]))
        known = "; ".join(f"{name}: {', '.join(sorted(marks))}" for name, marks in MARKS.items())
        raise StudyError(f"{path}: the columns ({has}) match no format; give format=NAME, or the columns of {known}")
    return found[0]


def table(path: Path) -> Table:
    """Return the rows of a CSV or JSON file. Raises StudyError, also for a file without rows."""
    rows = _json_rows(path) if path.suffix == ".json" else _csv_rows(path)
    if not rows:
        raise StudyError(f"{path}: the file has no row; allowed: one row or more")
    return rows


def _csv_rows(path: Path) -> Table:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, restkey=MORE, strict=True)
            _once(path, list(reader.fieldnames or ()))
            return read_lines([(f"{path.name}, line {reader.line_num}", row) for row in reader], _whole)
    except TraceError as error:
        raise StudyError(f"{path}: {lines(error)}; see docs/simulator.md") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StudyError(f"{path}: {_said(error)}; give a file that can be read") from None


def _once(path: Path, columns: Sequence[str]) -> None:
    """Raise TraceError if the header repeats a column, because only one of the two would be read."""
    if twice := [name for index, name in enumerate(columns) if name in columns[:index]]:
        raise TraceError(
            [str(FieldError(f"{path.name}, line 1", "header", name, "each column once")) for name in twice]
        )


def _whole(line: TraceRow) -> tuple[str, Mapping[str, object]]:
    """Return the row's location and values. Raises FieldError if it has fewer or more values than there are columns."""
    allowed = f"as many values as the header has columns ({len(line.values.keys() - {MORE})})"
    for name, value in line.values.items():
        if value is None or name == MORE:
            raise FieldError(line.where, name, value, allowed)
    return line.where, line.values


def _json_rows(path: Path) -> Table:
    inside = _json(path)
    if not isinstance(inside, dict) or "jobs" not in inside:
        return _objects(path, inside)
    if other := sorted(inside.keys() - INSIDE):
        raise refuse(f"{path}: key", other[0], ", ".join(INSIDE))
    return _objects(path, inside["jobs"])


def _objects(path: Path, found: object, name: str = "") -> Table:
    """Return the items of a list in a JSON file as rows. Raises StudyError if it is not a list of objects.

    name: the key of the list in the file; empty if the file is the list.
    """
    where = f"{path.name}: {name}" if name else path.name
    if not isinstance(found, list):
        raise refuse(f"{path.parent / where}", found, 'a list of objects, or {"nodes": [...], "jobs": [...]}')
    rows = numbered(found, where)
    if other := next(((place, row) for place, row in rows if not isinstance(row, dict)), None):
        raise refuse(f"{path.parent / other[0]}", other[1], "an object: {COLUMN: VALUE, ...}")
    return rows


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_object)
    except (OSError, ValueError) as error:
        raise StudyError(f"{path}: {_said(error)}; give a file that can be read") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict. Raises ValueError for a repeated key, because only its last value would count."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"a key is repeated in one object: {next(n for n in names if names.count(n) > 1)!r}")
    return found


def _said(error: BaseException) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def lines(error: TraceError) -> str:
    """Return the error's text to put after a file name; a text of several lines begins on a new line."""
    text = str(error)
    return f"\n{text}" if "\n" in text else text
