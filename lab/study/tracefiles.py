"""Read traces from files, whose formats are known by their columns."""

from __future__ import annotations

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
from lab.sim.traces.reading import Table, TraceRow
from lab.sim.traces.scale import offered
from lab.sim.traces.trace import GPU
from lab.study.rowfiles import is_json, lines, objects, parsed, table, text_of
from lab.study.specs import SEED, NamedSpec, Value
from lab.study.studyerrors import StudyError, refuse
from lab.study.traceparameters import MOST, check
from policy.cluster.node import Node

# MARKS has, for each format, columns that only its files have. A file has the format if it has all of these columns.
MARKS = {
    "kohort": {"arrival_seconds", "work_seconds"},
    "philly": {"timestamp", "num_gpus"},
    "pollux": {"application", "num_replicas"},
    "openb": {"num_gpu", "creation_time"},
}
# openb's files have these names, the preferred one first: short ones, and those under which Alibaba publishes them.
OPENB_PODS = ("pods.csv", "openb_pod_list_default.csv")
OPENB_NODES = ("nodes.csv", "openb_node_list_gpu_node.csv", "openb_node_list_all_node.csv")
SLOT = "slot_seconds"
SAMPLES = frozenset({"sample", "node_sample"})  # These parameters draw some of the file's rows at random, by the seed.


def read_trace(spec: NamedSpec, seed: int, models: Collection[str] | None = None) -> Trace:
    """Return the trace in the file of ``spec``, or in a folder with openb's pods and nodes. Raises StudyError.

    The spec may have the parameter ``format``, which is needed if the columns do not identify the format, and those of
    the format's reader in lab/sim/traces. ``models`` are the names of models that jobs may have, if speeds depend on
    the model; None: any.
    """
    path, parameters = Path(spec.name), spec.given()
    rows = table(_one_of(path, OPENB_PODS) if path.is_dir() else path)
    kind = parameters.pop("format", None) or _format(path, rows)
    if kind not in READERS:
        raise refuse(f"{path}: format", kind, ", ".join(MARKS))
    reader, read = READERS[kind]
    check(reader, spec, parameters)
    if SEED in parameters and not SAMPLES & parameters.keys():
        raise refuse(f"{path}: {SEED}", parameters[SEED], f"a seed only together with {' or '.join(sorted(SAMPLES))}")
    known = {"seed": seed, "models": models}
    ours = {name: known[name] for name in known.keys() & signature(reader).parameters.keys()}
    try:
        found = read(rows, path, **(ours | parameters))
    except TraceError as error:
        raise StudyError(f"{path}: {lines(error)}; see docs/simulator.md") from None
    except (TypeError, ValueError) as error:
        raise StudyError(f"{spec.text or spec.name}: {error}; see docs/simulator.md") from None
    if parameters.get("load") is not None and not offered(found, GPU):
        raise refuse(
            f"{path}: load", parameters["load"], "no load, because all jobs arrive at one moment or none asks for a GPU"
        )
    return found


def files_of(spec: NamedSpec) -> list[Path]:
    """Return every existing file that is read for the trace: its rows, nodes, faults, and step times of its models."""
    path, given = Path(spec.name), dict(spec.parameters)
    beside = [*_named(path, OPENB_PODS), *_named(path, OPENB_NODES), *_named(path.parent, OPENB_NODES)]
    own = [path, *beside, path.parent / str(given.get("nodes"))]
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
    text = text_of(path)
    inside = parsed(path, text) if is_json(path, text) else {}
    if nodes is None and "nodes" in inside:
        held = nodes_of(objects(path, inside["nodes"], "nodes"))
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
    if len(parts) in (3, 4) and all(part.isascii() and part.isdigit() for part in parts):
        count, *shape = map(int, parts)
        if not 1 <= count <= MOST:
            raise refuse(f"{path}: nodes", nodes, f"1 to {MOST} nodes")
        return tuple(node(f"node-{index:0{len(str(count - 1))}d}", *shape) for index in range(count))
    return nodes_of(table(path.parent / str(nodes))) if nodes else ()


def _openb(rows: Table, path: Path, **given: Any) -> Trace:
    return openb(rows, table(_one_of(path if path.is_dir() else path.parent, OPENB_NODES)), **given)


def _one_of(folder: Path, names: Sequence[str]) -> Path:
    """Return the first of these files that is in the folder, perhaps compressed. Raises StudyError if none is."""
    if found := next((file for file in _named(folder, names) if file.is_file()), None):
        return found
    raise StudyError(f"{folder}: has none of the files {', '.join(names)} (nor one with .gz); add one, or name a file")


def _named(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the paths of files of these names, each also with .gz, whether or not they exist."""
    return [folder / f"{name}{end}" for name in names for end in ("", ".gz")]


# READERS has two functions for each format: the reader, whose signature has the parameters of the trace, and a function
# that is called with the rows, the path and the parameters, and returns the trace.
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
