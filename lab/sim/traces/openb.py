"""Read Alibaba's openb trace (clusterdata, cluster-trace-gpu-v2023): a nodes CSV and a pods CSV.

This project's mapping: a pod is a job of one worker without ps. It arrives at its creation, and its work lasts from
``scheduled`` to its deletion. A share of a GPU (``gpu_milli``) becomes a whole one, as Kubernetes assigns devices. For
a pod that was never scheduled, its whole life counts as work, and a life below a second counts as one second.
"""

from __future__ import annotations

from lab.sim.objects import JobSpec
from lab.sim.traces.reading import FieldError, Table, TraceRow, read
from lab.sim.traces.scale import sampled, to_load
from lab.sim.traces.trace import GPU, PODS_PER_NODE, Trace
from lab.sim.traces.tracechecks import checked, checked_nodes
from policy.cluster.constraints import Constraints, Requirement, Term
from policy.cluster.job import WORKER, Role
from policy.cluster.node import Node
from policy.cluster.resources import Resources

MIB = 1 << 20
MODEL = "gpu-model"  # The trace's column gpu_spec selects nodes by this label.


def openb(
    pods: Table,
    nodes: Table,
    *,
    load: float | None = None,
    sample: int | None = None,
    node_sample: int | None = None,
    stretch: int = 1,
    seed: int = 0,
) -> Trace:
    """Return the pods as jobs on the nodes. Raises TraceError, and ValueError for a wrong parameter.

    ``load`` is the mean load of the GPUs to which the gaps between arrivals are scaled (None: unchanged). ``sample``
    and ``node_sample`` are the numbers of pods and nodes to draw with the seed (None: all). ``stretch`` is the maximum
    number of workers of a job with GPUs; each pod of the trace is one worker.
    """
    chosen = sampled(nodes, node_sample, seed, "node_sample")
    cluster = checked_nodes(read(chosen, lambda line: (line.where, _node(line))), "sn")
    jobs = read(sampled(pods, sample, seed), lambda line: (line.where, _job(line, stretch)))
    return to_load(checked(cluster, jobs), load, GPU)


def _node(line: TraceRow) -> Node:
    line.columns(("sn", "cpu_milli", "memory_mib", "gpu"))
    amounts = {
        "cpu": line.count("cpu_milli", least=1),
        "memory": line.count("memory_mib", least=1) * MIB,
        GPU: line.count("gpu"),
        "pods": PODS_PER_NODE,
    }
    labels = {MODEL: line.text("model")} if line.has("model") else {}
    return Node(line.text("sn"), Resources(amounts), labels=labels)


def _job(line: TraceRow, stretch: int) -> JobSpec:
    line.columns(("name", "cpu_milli", "memory_mib", "num_gpu", "creation_time", "deletion_time"))
    gpus = line.count("num_gpu")
    milli = line.number("gpu_milli", most=1000) if line.has("gpu_milli") else 1000.0
    if gpus == 0 and milli > 0 and line.has("gpu_milli"):
        raise FieldError(line.where, "gpu_milli", line.values["gpu_milli"], "0 where num_gpu is 0")
    amounts = {"cpu": line.count("cpu_milli"), "memory": line.count("memory_mib") * MIB, "pods": 1}
    created = line.number("creation_time")
    began = line.number("scheduled_time", least=created) if line.has("scheduled_time") else created
    ended = line.number("deletion_time", least=began)
    worker = Role(WORKER, 1, Resources(amounts | ({GPU: gpus} if gpus else {})), _constraints(line))
    return JobSpec(
        name=line.text("name"),
        roles=(worker,),
        min_workers=1,
        max_workers=stretch if gpus else 1,
        work_seconds=max(1.0, ended - began),
        arrival=created,
    )


def _constraints(line: TraceRow) -> Constraints:
    """Return the constraint to any of the GPU models in ``P100|T4``."""
    if not line.has("gpu_spec"):
        return Constraints()
    models = tuple(line.text("gpu_spec").split("|"))
    return Constraints(terms=(Term((Requirement(MODEL, "In", models),), ()),))
