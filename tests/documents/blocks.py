"""Tables and diagrams generated from the code's own tables."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import yaml
from prometheus_client.core import Metric

from extender.config.settings import Settings
from extender.control import eventreasons
from extender.kube import jobkinds
from extender.kube.jobkinds import KINDS
from extender.kube.trainingannotation import FIELDS
from policy.answers.mends import MENDS
from policy.cluster.lifecycle import TABLE, State
from policy.cluster.reasons import Reason
from policy.cluster.resources import BANDWIDTH
from policy.cluster.training import Training
from policy.placement.plugins import PLUGINS
from policy.systems.oasis import workload
from tests.documents import facts

ROOT: Final = Path(__file__).parents[2]
# By annotation: the objects that have it, who writes it, and its meaning. A test compares the names with the code.
ANNOTATIONS: Final = {
    jobkinds.MIN_WORKERS: ("job", "you", "The fewest workers that are worth running: the gang. Default: all."),
    jobkinds.MAX_WORKERS: ("job", "you, or Kohort", "The most workers. Where you did not state them, Kohort writes the "
                           "number that was asked for with its first resize."),
    jobkinds.UTILITY: ("job", "you", "A factor on the job's weight, above 0. Default 1; under `drs` the value of its "
                       "pods' PriorityClass."),
    jobkinds.TRAINING: ("job", "you", "What the job says of its training, as YAML ([keys](#training)); for `oasis` and "
                        "`specon`."),
    jobkinds.ELASTIC_PS: ("TFJob", "you", "`true`: the job may be started again, from its checkpoint, with as many ps "
                          "as `oasis` plans for a slot. Needs `workerGigabits` and `psGigabits`."),
    jobkinds.MIGRATABLE: ("job", "you", "`true`: the job may be moved whole, since it goes on from a checkpoint."),
    jobkinds.PROGRESS: ("job", "you", "How far training is, where it cannot report over the network: JSON with "
                        "`metric`, `step`, `steps` and `time` (seconds since the epoch)."),
    jobkinds.REPORTS: ("job", "Kohort", "The newest reports of training, so that they survive a restart."),
    jobkinds.MEMORY: ("job", "Kohort", "What the policy remembers of the job, so that it survives a restart."),
    jobkinds.RELEASED: ("job", "Kohort", "The job is suspended until its pods are gone. Take it away to keep it so."),
    jobkinds.LEADER: ("job, pod", "Kohort", "The replica that wrote last: one that leads no more is refused."),
    jobkinds.DELETION_COST: ("pod of a Deployment", "Kohort", "Makes its ReplicaSet take the highest number first."),
    jobkinds.CHECKPOINT: ("pod", "Kohort", "The job is about to be moved: the training is asked to save its state."),
    jobkinds.PLAN: ("pod", "Kohort", "The plan under which the pod was bound."),
    jobkinds.SLOT: ("pod", "Kohort", "Its role and index in that plan; a pod that is a gang of its own has none."),
    jobkinds.WAKE: ("pod", "Kohort", "Changed to wake a refused pod in kube-scheduler's queue."),
    jobkinds.GATE: ("pod, a scheduling gate", "admission policy", "The pod is left alone until its gang has room."),
    jobkinds.FAILURES: ("node", "Kohort", "Which jobs' members have failed there, and when, so that it survives a "
                        "restart (setting `nodes.avoid_failing`)."),
    jobkinds.FORGIVE: ("node", "you", "`true`: Kohort forgets the failures there, and takes both annotations away."),
    BANDWIDTH: ("node: bits per second, `25G`; pod: a resource", "you", "Network bandwidth, as `oasis` plans it."),
    workload.POOL: ("node, a label", "you", "`worker` or `ps`: `oasis` puts only that role there."),
}  # fmt: skip
# The keys of the annotation ``kohort.dev/training`` with their meaning. The pages are not generated if these are not
# exactly the keys that the code reads.
TRAINING_KEYS: Final = {
    "epochs": ("1 or more", "Of the whole data. Who says nothing of these four does not say how long it trains."),
    "chunks": ("1 or more", "Of the data. `oasis` gives no more workers than that, but never fewer than the minimum."),
    "batches": ("1 or more", "Mini-batches of one chunk."),
    "secondsPerBatch": ("above 0", "Of one mini-batch on one worker."),
    "gradientMegabytes": ("0 or more", "Sent for each mini-batch, and as much of parameters received."),
    "workerGigabits": ("0 or more", "A second, of one worker; 0: not stated."),
    "psGigabits": ("0 or more", "A second, of one ps; 0: not stated."),
    "utility": ("`value` above 0, `steepness` and `target` from 0; all three", "What the job is worth by its delay in "
                "slots: value / (1 + exp(steepness (delay - target))). Default: half of `kohort.dev/utility`, always."),
    "allReduce": ("true or false", "The workers exchange gradients among themselves; there is no ps."),
    "goal": ("`min` or `max`", "Which way the reported metric gets better; `max` for an accuracy."),
    "alpha": ("above 0", "`specon`'s threshold for this job. Default: the policy's."),
}  # fmt: skip
TRAINING_EXAMPLE: Final = """\
```yaml
kohort.dev/training: |
  epochs: 10
  chunks: 40
  batches: 100
  secondsPerBatch: 0.5
  gradientMegabytes: 50
  workerGigabits: 1
  psGigabits: 5
  utility: {value: 50, steepness: 0.5, target: 6}
  goal: max
```"""
EVENTS: Final = {word.reason: f"{word.meaning} ({word.type})" for word in eventreasons.WORDS}
ABOUT_EVENTS: Final = (
    "On the job object (`kubectl describe`), by the controller, best effort; at most nine an hour of a job that waits "
    "(a controller that starts again repeats none of `Queued` and `Starving`, and counts the others anew). Not on its "
    "pods ([why](../decisions/0009-events-on-the-job-object.md)). No condition is set: no operator of these kinds "
    "reads one from a scheduler, and each writes its status anew. The pods' own `PodScheduled` has the reason, too."
)
UNITS: Final = {"counter": "_total", "gauge": "", "histogram": "", "gaugehistogram": ""}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table; a vertical bar in a cell is escaped."""
    first = list(head)
    lines = [first, ["---"] * len(first), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines)


def all_annotations() -> str:
    rows = ((f"`{name}`", where, who, what) for name, (where, who, what) in ANNOTATIONS.items())
    every = table(("Name", "On", "Written by", "Meaning"), rows)
    return f"{every}\n\n## Training\n\n{TRAINING_EXAMPLE}\n\n{training_keys()}"


def training_keys() -> str:
    if FIELDS.keys() != TRAINING_KEYS.keys():
        raise KeyError(f"{jobkinds.TRAINING}: told are {', '.join(TRAINING_KEYS)}; read are {', '.join(FIELDS)}")
    blank = Training()
    rows = []
    for key, (allowed, what) in TRAINING_KEYS.items():
        default = getattr(blank, FIELDS[key][0])
        shown = "" if default is None else json.dumps(getattr(default, "value", default))
        rows.append((f"`{key}`", allowed, shown.strip('"'), what))
    return table(("Key", "Allowed", "Default", "Meaning"), rows)


def settings() -> str:
    rows = ((f"`{name}`", f"`{default}`" if default else "", text) for name, default, text in facts.settings(Settings))
    return table(("Setting", "Default", "Meaning"), rows)


def metrics() -> str:
    extender, controller = facts.extender_families(), facts.controller_families()
    both = {family.name for family in extender} & {family.name for family in controller}
    parts = {
        "Extender": [family for family in extender if family.name not in both],
        "Controller": [family for family in controller if family.name not in both],
        "Both": [family for family in extender if family.name in both],
    }
    tables = [f"## {part}\n\n{_families(families)}" for part, families in parts.items()]
    return "\n\n".join([*tables, f"## Alerts\n\n{_alerts()}"])


def _families(families: Iterable[Metric]) -> str:
    rows = ((f"`{family.name}{UNITS[family.type]}`", family.type, ", ".join(labels(family)), family.documentation)
            for family in sorted(families, key=lambda family: family.name))  # fmt: skip
    return table(("Metric", "Type", "Labels", "Meaning"), rows)


def labels(family: Metric) -> list[str]:
    """Return the names of a metric's labels, which are known even if the metric has no samples yet."""
    return list(getattr(family, "_labelnames", ()) or facts.label_names(family.name))


def _alerts() -> str:
    text = (ROOT / "manifests/components/monitoring/alerts.yaml").read_text()
    rules = yaml.safe_load(text)["groups"][0]["rules"]
    rows = ((f"`{rule['alert']}`", rule["labels"]["severity"], rule.get("for", "at once"),
             rule["annotations"]["description"]) for rule in rules)  # fmt: skip
    return table(("Alert", "Severity", "After", "What to do"), rows)


def reasons() -> str:
    rows = ((f"`{one.value}`", one.text.removeprefix("kohort: "), MENDS.get(one, "")) for one in Reason)
    told = ((f"`{name}`", text) for name, text in EVENTS.items())
    return "\n\n".join((
        table(("Reason", "It says", "What helps"), rows),
        f"## Events\n\n{ABOUT_EVENTS}",
        table(("Event", "Meaning"), told),
    ))  # fmt: skip


# -- The functions below make the blocks of handwritten pages. -------------------------------------


def lifecycle() -> str:
    """Return the lifecycle table as a Mermaid state diagram."""
    edges: dict[tuple[State, State], list[str]] = {}
    for (state, how), after in TABLE.items():
        edges.setdefault((state, after), []).append(how.value)
    lines = [f"    {old.value} --> {new.value}: {', '.join(moves)}" for (old, new), moves in edges.items()]
    start = f"    [*] --> {State.WAITING.value}"
    return "\n".join(["```mermaid", "stateDiagram-v2", start, *lines, "```"])


def plugins() -> str:
    rows = (
        (f"`{one.name}`", one.checked, ", ".join(f"`{field}`" if " " not in field else field for field in one.fields),
         "yes" if one.others else "")
        for one in PLUGINS.values()
    )  # fmt: skip
    return table(("Plugin", "Kohort checks", "Must be absent from the pod", "Other pods count"), rows)


def rooms() -> str:
    """Return a diagram of the packages' layers from the import contracts; an arrow is an allowed import."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = {one["name"]: one["layers"] for one in contracts if one["name"].startswith("layers of ")}
    lines = ["flowchart TD"]
    for number, (name, levels) in enumerate(layers.items()):
        package = name.removeprefix("layers of ")
        lines.append(f"  subgraph {package}")
        ids = [f"l{number}_{level}" for level in range(len(levels))]
        for id_, level in zip(ids, levels, strict=True):
            names = " · ".join(part.strip("( )").removeprefix(f"{package}.") for part in level.split("|"))
            lines.append(f'    {id_}["{names}"]')
        lines.append(f"    {' --> '.join(ids)}")
        lines.append("  end")
    return "\n".join(["```mermaid", *lines, "```"])


def kinds() -> str:
    rows = []
    for kind in KINDS.values():
        elastic = kind.resizes
        rigid = ", ".join(key for key, role in kind.roles.items() if key != kind.worker)
        bounds = f"`spec.{kind.bounds_at}`" if kind.bounds_at else "annotations"
        fixed = [f"`spec.{name}: {value}`" for name, (value, _) in kind.fixed.items()]
        needs = [*fixed, *([f"`spec.{kind.elastic_if}`"] if kind.elastic_if else [])]
        workers = f"`{kind.workers_at}`" if elastic else "fixed once it is there"
        rows.append((kind.kind, workers, rigid, bounds if elastic else "", ", ".join(needs)))
    return table(("Kind", "Workers", "Rigid roles", "Bounds", "Needs"), rows)
