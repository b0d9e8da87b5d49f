"""Read Microsoft's Philly trace (Jeon et al., ATC 2019), one row per job: timestamp, duration (s), num_gpus.

This project's mapping: a worker for each GPU with 4 cores and 32 GiB, no ps, from half to double the workers asked for;
nodes of 8 GPUs, 64 cores and 512 GiB. ``duration`` is what the job took with the workers that it asked for.
"""

from __future__ import annotations

from lab.sim.objects import JobSpec
from lab.sim.traces.reading import FieldError, Table, TraceRow, read
from lab.sim.traces.scale import elastic, sampled, to_load, work
from lab.sim.traces.trace import GPU, Trace, node, pod_requests
from lab.sim.traces.tracechecks import checked
from policy.cluster.job import WORKER, Role

NODES = 1000
LOAD = 0.9
CONTENTION = 0.1
DAY = 86_400


def philly(
    table: Table,
    *,
    nodes: int = NODES,
    load: float | None = LOAD,
    sample: int | None = None,
    seed: int = 0,
    contention: float = CONTENTION,
) -> Trace:
    """Return the jobs on ``nodes`` nodes. Raises TraceError, and ValueError for a wrong parameter.

    ``load`` is the mean load of the GPUs to which the gaps between arrivals are scaled. ``sample`` is the number of
    jobs to draw with the seed (None: all); ``contention`` is ``a`` of the speed model (lab/sim/speed.py).
    """
    jobs = read(sampled(table, sample, seed), lambda line: (line.where, _job(line, contention)))
    width = len(str(nodes - 1))
    cluster = [node(f"node-{index:0{width}d}", 64, 512, 8) for index in range(nodes)]
    return to_load(checked(cluster, jobs), load, GPU)


def _job(line: TraceRow, contention: float) -> JobSpec:
    line.columns(("timestamp", "duration", "num_gpus"))
    workers = line.count("num_gpus", least=1)
    seconds = line.number("duration", above=0)
    least, most = elastic(workers)
    return JobSpec(
        name=f"job-{line.position}",
        roles=(Role(WORKER, workers, pod_requests(4, 32, 1)),),
        min_workers=least,
        max_workers=most,
        work_seconds=work(seconds, workers, contention),
        contention=contention,
        arrival=_moment(line),
    )


def _moment(line: TraceRow) -> float:
    """Return a time such as ``2017-10-09 07:01:55`` in seconds. The time zone is irrelevant, as only differences are
    used.
    """
    text = line.text("timestamp")
    allowed = "a moment such as 2017-10-09 07:01:55"
    try:
        date, clock = text.replace("T", " ").split(" ")
        year, month, day = map(int, date.split("-"))
        hour, minute, second = map(float, clock.split(":"))
    except ValueError:
        raise FieldError(line.where, "timestamp", text, allowed) from None
    is_day = 1 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= _last(year, month)
    if not (is_day and 0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 61):
        raise FieldError(line.where, "timestamp", text, allowed)
    return _days(year, month, day) * DAY + hour * 3600 + minute * 60 + second


def _last(year: int, month: int) -> int:
    """Return the last day of that month."""
    following = (year, month + 1) if month < 12 else (year + 1, 1)
    return _days(*following, 1) - _days(year, month, 1)


def _days(year: int, month: int, day: int) -> int:
    """Return the day number in the Gregorian calendar; years begin in March, so that the leap day is the last day."""
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day
