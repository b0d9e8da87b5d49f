"""The outcome of each job of a run in the world of the Pollux artifact, and the use of the GPUs."""

from __future__ import annotations

from lab.sim.objects import JobSpec
from lab.sim.pollux.training import TrainingJob
from lab.sim.pollux.workload import GPUS_PER_NODE, NODES, PolluxWorkload
from lab.sim.report import JobOutcome, ResourceUse, RunResult
from lab.sim.traces.trace import GPU


class PolluxMeter:
    """Collects the outcomes of the jobs of one run; ``start`` is the time of the start of the trace."""

    def __init__(self, workload: PolluxWorkload, start: float) -> None:
        self._workload, self._start = workload, start
        self._outcomes: dict[str, JobOutcome] = {}
        self._held = self._trained = 0.0  # GPU-seconds

    def end(self, spec: JobSpec, training: TrainingJob, at: float, *, finished: bool, rejected: bool = False) -> None:
        """Record the outcome of a job that ended at that time, or was open when the run ended."""
        self._held += training.gpu_delayed + training.gpu_trained
        self._trained += training.gpu_trained
        self._outcomes[spec.name] = JobOutcome(
            name=spec.name,
            arrival=spec.arrival,
            started=training.began - self._start if training.began is not None else None,
            ended=at - self._start,
            finished=finished,
            rejected=rejected,
            resizes=max(0, training.starts - 1),
            scaling_seconds=training.delayed,
            running_seconds=training.trained,
            ideal_seconds=spec.work_seconds / spec.workers,
        )

    def result(self, policy: str, end: float) -> RunResult:
        """Return the result of the run. The makespan is the end of the last job, counted from the start of the trace.

        ``resizes`` counts restarts: starts after a job's first one.
        """
        jobs = tuple(self._outcomes[spec.name] for spec in self._workload.trace.jobs if spec.name in self._outcomes)
        makespan = max((job.ended for job in jobs), default=0.0)
        room = NODES * GPUS_PER_NODE * makespan or 1.0
        held, computing = self._held / room, self._trained / room
        return RunResult(
            policy=policy,
            jobs=jobs,
            makespan_seconds=makespan,
            utilisation=computing,
            held=held,
            horizon_seconds=end - self._start,
            use={GPU: ResourceUse(held, computing)},
        )
