"""Kohort's own trace format: one row for each job and one for each node, the same in CSV and JSON.

Jobs have one worker role and at most one ps role. Columns of OPTIONAL may be missing or empty.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from lab.sim.objects import CleanPods, JobSpec
from lab.sim.traces.reading import FieldError, Table, TraceError, TraceRow, read
from lab.sim.traces.trace import GPU, PODS_PER_NODE, Trace
from lab.sim.traces.tracechecks import checked, checked_nodes
from policy.cluster.constraints import ANYWHERE, Constraints
from policy.cluster.job import PS, WORKER, Role
from policy.cluster.node import Node
from policy.cluster.resources import BANDWIDTH, Resources
from policy.cluster.training import Goal, Training, Utility

REQUIRED = (
    "name", "arrival_seconds", "workers", "min_workers", "max_workers", "worker_millicores", "worker_memory_bytes",
    "work_seconds",
)  # fmt: skip
# A row has either all of these columns or none of them.
UTILITY = ("utility_value", "utility_steepness", "utility_target")
TRAINING = (
    "epochs", "chunks", "batches", "batch_seconds", "gradient_megabytes", "worker_gbps", "ps_gbps", "all_reduce",
    "goal", "alpha", *UTILITY,
)  # fmt: skip
WORKER_SELECTOR, PS_SELECTOR = SELECTORS = ("worker_node_selector", "ps_node_selector")
OPTIONAL = (
    "worker_gpus", "ps", "ps_millicores", "ps_memory_bytes", "contention", "clean_pods", "utility", "model",
    "local_batch", "decay", "migratable", "ps_elastic", *SELECTORS, *TRAINING,
)  # fmt: skip
# The largest number of members in one role of a job, because the simulator makes an object for each member.
MOST_MEMBERS = 100_000
OF_NODES, ALSO_OF_NODES = ("name", "cpu_millicores", "memory_bytes"), ("gpus", "pods", "gbps", "labels")


def rows(jobs: Iterable[JobSpec]) -> list[dict[str, object]]:
    """Return jobs with one worker role and at most one ps role as rows. Raises TraceError for a job without workers."""
    return [_row(job) for job in jobs]


def _row(job: JobSpec) -> dict[str, object]:
    worker, server = job.role(WORKER), job.role(PS)
    if worker is None:
        raise TraceError([f"{job.name}: has no worker role; add a row for it"])
    return {
        "name": job.name,
        "arrival_seconds": job.arrival,
        "workers": worker.replicas,
        "min_workers": job.min_workers,
        "max_workers": job.max_workers,
        "worker_millicores": worker.requests["cpu"],
        "worker_memory_bytes": worker.requests["memory"],
        "worker_gpus": worker.requests[GPU],
        "ps": server.replicas if server else 0,
        "ps_millicores": server.requests["cpu"] if server else 0,
        "ps_memory_bytes": server.requests["memory"] if server else 0,
        "work_seconds": job.work_seconds,
        "contention": job.contention,
        "clean_pods": job.clean_pods.value,
        "utility": job.utility,
        "model": job.model,
        **({} if job.local_batch is None else {"local_batch": job.local_batch}),
        "decay": job.decay,
        "migratable": job.migratable,
        "ps_elastic": job.ps_elastic,
        WORKER_SELECTOR: _selector_text(worker),
        PS_SELECTOR: _selector_text(server) if server else "",
        **(_training_row(job.training) if job.training else {}),
    }


def _selector_text(role: Role) -> str:
    return ";".join(f"{key}={value}" for key, value in role.constraints.node_selector)


def _training_row(training: Training) -> dict[str, object]:
    utility = training.utility
    row: dict[str, object] = {
        "epochs": training.epochs,
        "chunks": training.chunks,
        "batches": training.batches,
        "batch_seconds": training.seconds,
        "gradient_megabytes": training.gradient,
        "worker_gbps": training.worker_bandwidth,
        "ps_gbps": training.ps_bandwidth,
        "all_reduce": training.all_reduce,
        "goal": training.goal.value,
    }
    if training.alpha is not None:
        row["alpha"] = training.alpha
    if utility is not None:
        row |= {"utility_value": utility.value, "utility_steepness": utility.steepness}
        row |= {"utility_target": utility.target}
    return row


def trace_of(jobs: Table, nodes: Sequence[Node] = (), models: Collection[str] | None = None) -> Trace:
    """Return the trace of rows in this format. Without nodes, it is not checked whether the jobs fit. Raises
    TraceError.

    ``models`` are the names of models that the speed model knows; None allows any name.
    """
    return checked(nodes, read(jobs, lambda line: (line.where, _job(line, models))))


def jobs_of(table: Table) -> tuple[JobSpec, ...]:
    """Return the jobs of rows in this format, by arrival. Raises TraceError."""
    return trace_of(table).jobs


def nodes_of(table: Table) -> tuple[Node, ...]:
    """Return the nodes of rows in this format. Raises TraceError."""
    return checked_nodes(read(table, lambda line: (line.where, _node(line))), "name")


def _node(line: TraceRow) -> Node:
    line.columns(OF_NODES, ALSO_OF_NODES)
    pods = line.count("pods", least=1) if line.has("pods") else PODS_PER_NODE
    amounts = {"cpu": line.count("cpu_millicores"), "memory": line.count("memory_bytes"), "pods": pods}
    more = {GPU: line.count("gpus") if line.has("gpus") else 0}
    more[BANDWIDTH] = round(1000 * line.number("gbps", above=0)) if line.has("gbps") else 0
    labels = line.pairs("labels") if line.has("labels") else {}
    amounts |= {name: amount for name, amount in more.items() if amount}
    return Node(line.text("name"), Resources(amounts), labels=labels)


def _job(line: TraceRow, models: Collection[str] | None) -> JobSpec:
    line.columns(REQUIRED, OPTIONAL)
    least = line.count("min_workers", least=1)
    workers = line.count("workers", least=least, bound="min_workers")
    most = line.count("max_workers", least=workers, most=MOST_MEMBERS, bound="workers")
    gpus = line.count("worker_gpus") if line.has("worker_gpus") else 0
    worker = Role(WORKER, workers, _requests(line, "worker", gpus), _constraints(line, WORKER_SELECTOR))
    servers = line.count("ps", most=MOST_MEMBERS) if line.has("ps") else 0
    if not servers and line.has(PS_SELECTOR):
        raise FieldError(line.where, PS_SELECTOR, line.values[PS_SELECTOR], "nothing, as the job has no ps")
    server = Role(PS, servers, _requests(line, "ps", 0), _constraints(line, PS_SELECTOR)) if servers else None
    roles = (server, worker) if server else (worker,)
    blank = JobSpec("", (), 0, 0, 0.0)  # ``blank`` has the default values of the fields that a row may leave out.
    return JobSpec(
        name=line.text("name"),
        roles=roles,
        min_workers=least,
        max_workers=most,
        work_seconds=line.number("work_seconds", above=0),
        arrival=line.number("arrival_seconds"),
        contention=line.number("contention", most=1) if line.has("contention") else blank.contention,
        clean_pods=line.member("clean_pods", CleanPods) if line.has("clean_pods") else blank.clean_pods,
        utility=line.number("utility", above=0) if line.has("utility") else blank.utility,
        model=_model(line, models),
        local_batch=line.number("local_batch", above=0) if line.has("local_batch") else None,
        decay=line.number("decay") if line.has("decay") else blank.decay,
        training=_training(line) if any(line.has(name) for name in TRAINING) else None,
        migratable=line.truth("migratable") if line.has("migratable") else blank.migratable,
        ps_elastic=line.truth("ps_elastic") if line.has("ps_elastic") else blank.ps_elastic,
    )


def _model(line: TraceRow, models: Collection[str] | None) -> str:
    name = line.text("model") if line.has("model") else ""
    if models is not None and name not in models:
        raise FieldError(line.where, "model", name, " or ".join(sorted(models)))
    return name


def _requests(line: TraceRow, role: str, gpus: int) -> Resources:
    amounts = {"cpu": line.count(f"{role}_millicores"), "memory": line.count(f"{role}_memory_bytes"), "pods": 1}
    return Resources(amounts | ({GPU: gpus} if gpus else {}))


def _constraints(line: TraceRow, name: str) -> Constraints:
    return Constraints(node_selector=tuple(sorted(line.pairs(name).items()))) if line.has(name) else ANYWHERE


def _training(line: TraceRow) -> Training:
    def count(name: str) -> int:
        return line.count(name, least=1) if line.has(name) else 1

    def number(name: str, default: float = 0.0) -> float:
        return line.number(name) if line.has(name) else default

    return Training(
        epochs=count("epochs"),
        chunks=count("chunks"),
        batches=count("batches"),
        seconds=line.number("batch_seconds", above=0) if line.has("batch_seconds") else 1.0,
        gradient=number("gradient_megabytes"),
        worker_bandwidth=number("worker_gbps"),
        ps_bandwidth=number("ps_gbps"),
        utility=_utility(line) if any(line.has(name) for name in UTILITY) else None,
        all_reduce=line.truth("all_reduce") if line.has("all_reduce") else False,
        goal=line.member("goal", Goal) if line.has("goal") else Goal.MIN,
        alpha=line.number("alpha", above=0) if line.has("alpha") else None,
    )


def _utility(line: TraceRow) -> Utility:
    steepness, target = line.number("utility_steepness"), line.number("utility_target")
    return Utility(line.number("utility_value"), steepness, target)
