"""Run a workload of the Pollux artifact: the live ``step`` once in a round, and training as it was measured.

As in the artifact, a round first lets every job train on the GPUs that it was given in the round before. Then the
policy sees which jobs have ended and arrived, and what the others report, and its decisions become facts at the same
instant. A job that ends inside a round keeps its GPUs until the round is over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lab.sim.engine import START
from lab.sim.fluid.fluidcluster import FluidCluster
from lab.sim.fluid.fluidrun import ROUNDS, RestlessError
from lab.sim.pollux.polluxresult import PolluxMeter
from lab.sim.pollux.training import TrainingJob
from lab.sim.pollux.workload import PolluxWorkload
from lab.sim.report import RunResult
from lab.sim.simulatedstep import SimulatedStep
from policy.cluster.actions import Effect, Reject
from policy.cluster.events import Event, NodeSeen, Reported, Synced, Tick
from policy.cluster.snapshot import Rules, Snapshot
from policy.cluster.training import Report
from policy.step import step
from policy.systems.base import Policy

Layout = tuple[tuple[str, ...], frozenset[str]]  # the node of each worker in order, and the uids of the pods
NOWHERE: Layout = ((), frozenset())


@dataclass(frozen=True, slots=True)
class PolluxSettings:
    """Settings of a run; times are in seconds.

    round_seconds: the policy is asked once in a round. restart_seconds: for how long a job does not train after its
    GPUs have changed, its first start included. interference: by which share a job on several nodes is slowed down
    while another such job has a GPU on one of its nodes. horizon: when the run ends in any case.
    """

    round_seconds: float = 60.0
    restart_seconds: float = 30.0
    interference: float = 0.0
    horizon: float = 1_000_000.0
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        """Raise ValueError for a value that makes no sense."""
        if not 0 < self.round_seconds <= self.horizon:
            raise ValueError(f"round_seconds is {self.round_seconds!r}, must be above 0 and at most the horizon")
        if not self.restart_seconds >= 0:
            raise ValueError(f"restart_seconds is {self.restart_seconds!r}, must be 0 or more")
        if not 0 <= self.interference < 1:
            raise ValueError(f"interference is {self.interference!r}, must be 0 or more and below 1")


def simulate_pollux(
    workload: PolluxWorkload,
    policy: Policy,
    settings: PolluxSettings | None = None,
    *,
    on_step: Callable[[SimulatedStep], None] | None = None,
) -> RunResult:
    """Run the workload under the policy, and return the result; ``on_step`` is called with every step."""
    return PolluxRun(workload, policy, settings or PolluxSettings(), on_step).until_done()


class PolluxRun:
    """One run; it depends only on its arguments."""

    def __init__(
        self,
        workload: PolluxWorkload,
        policy: Policy,
        settings: PolluxSettings,
        on_step: Callable[[SimulatedStep], None] | None = None,
    ) -> None:
        self._workload, self._policy, self._settings, self._on_step = workload, policy, settings, on_step
        self._now = START
        self._snapshot = Snapshot(rules=settings.rules)
        self._cluster = FluidCluster(workload.trace)
        self._meter = PolluxMeter(workload, START)
        # Jobs by uid that have not arrived yet, in order of arrival.
        self._to_come = {f"job-{number:06d}": spec for number, spec in enumerate(workload.trace.jobs)}
        self._training: dict[str, TrainingJob] = {}
        self._layouts: dict[str, Layout] = {}
        self._inbox: list[Event] = [*(NodeSeen(node) for node in workload.trace.nodes), Synced()]
        self._later: list[Event] = []  # facts that the step sees one batch after those of ``_inbox``
        self._open: set[str] = set()  # jobs whose pods a later step may change although no effect names them

    def until_done(self) -> RunResult:
        """Run rounds until all jobs have ended, or until the horizon."""
        while (self._to_come or self._training) and self._now - START < self._settings.horizon:
            self._train()
            self._now += self._settings.round_seconds
            self._arrive()
            if self._training:
                self._decide()
        for uid, training in self._training.items():
            self._meter.end(self._cluster.jobs[uid].spec, training, self._now, finished=False)
        return self._meter.result(self._policy.name, self._now)

    def _train(self) -> None:
        """Let every job train for a round; those that are complete end."""
        slowed = interfered({uid: training.nodes for uid, training in self._training.items()})
        for uid, training in list(self._training.items()):
            factor = 1.0 - self._settings.interference if uid in slowed else 1.0
            spent = training.advance(self._settings.round_seconds, factor)
            if training.complete:
                self._end(uid, self._now + spent, finished=True)

    def _end(self, uid: str, at: float, **how: bool) -> None:
        """End the job at that time; ``how`` is finished or rejected."""
        spec = self._cluster.jobs[uid].spec
        seen, later = self._cluster.end(uid)
        self._inbox += seen
        self._later += later
        self._layouts.pop(uid, None)
        self._meter.end(spec, self._training.pop(uid), at, **how)

    def _arrive(self) -> None:
        for uid, spec in list(self._to_come.items()):
            arrived = START + spec.arrival
            if arrived > self._now:
                return
            del self._to_come[uid]
            self._training[uid] = self._workload.training(spec)
            self._inbox += self._cluster.arrive(uid, spec, arrived)

    # -- The methods below make steps and follow their effects. ------------------------------------

    def _decide(self) -> None:
        """Make steps until no further events follow; then start the jobs whose GPUs have changed."""
        self._inbox += [*self._reports(), Tick()]
        for _ in range(ROUNDS):
            if not self._inbox:
                break
            self._step()
        else:
            raise RestlessError(f"the policy {self._policy.name} comes to no end at {self._now - START:g} s")
        for uid in sorted(self._cluster.moved & self._cluster.jobs.keys()):
            self._lay_out(uid)
        self._cluster.moved.clear()

    def _reports(self) -> list[Event]:
        """Return what the jobs with GPUs report: their metric after the last epoch, and the share of the work done."""
        found = ((uid, training) for uid, training in self._training.items() if training.nodes)
        return [Reported(uid, Report(self._now, training.metric, training.share)) for uid, training in found]

    def _step(self) -> None:
        events = tuple(self._inbox)
        self._inbox, self._later = self._later, []
        self._snapshot, effects = step(self._snapshot, events, self._policy, self._now)
        if self._on_step is not None:
            self._on_step(SimulatedStep(self._now, self._snapshot, events, effects))
        self._follow({uid for effect in effects if (uid := self._carried_out(effect))} | self._open)

    def _carried_out(self, effect: Effect) -> str:
        """Return the uid of the job whose pods the effect may change, or "" if there is none; rejected jobs end."""
        uid: str = getattr(effect, "job_uid", "")
        if isinstance(effect, Reject) and uid in self._training:
            self._end(uid, self._now, finished=False, rejected=True)
        return uid

    def _follow(self, uids: set[str]) -> None:
        self._inbox += self._cluster.follow(self._snapshot, uids, self._now)
        for uid in uids:
            members = self._cluster.jobs.get(uid)
            unfinished = members is not None and members.unfinished(self._snapshot.gang(uid))
            (self._open.add if unfinished else self._open.discard)(uid)

    def _lay_out(self, uid: str) -> None:
        """Start the job if the node of any worker has changed, or if a pod was replaced where it was."""
        members = self._cluster.jobs[uid]
        running = members.running(self._cluster.nodes)
        layout = (running.workers, members.bound) if running is not None else NOWHERE
        if layout != self._layouts.get(uid, NOWHERE):
            self._layouts[uid] = layout
            self._training[uid].start(layout[0], self._now, self._settings.restart_seconds)


def interfered(nodes: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Return the jobs on several nodes of which one has a GPU of another such job.

    ``nodes``: the node of each worker, by job.
    """
    wide = {job: set(used) for job, used in nodes.items() if len(set(used)) > 1}
    crowd = Counter(node for used in wide.values() for node in used)
    return {job for job, used in wide.items() if any(crowd[node] > 1 for node in used)}
