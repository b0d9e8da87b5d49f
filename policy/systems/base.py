"""The base class of all scheduling systems; its defaults suit a system that only admits jobs, in order of arrival."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from policy.cluster.actions import Action, Decision
from policy.cluster.job import Job
from policy.cluster.snapshot import Snapshot
from policy.placement.grow import Where

# ``Parts`` is the part of a policy's memory that is written to one job's object: it maps the system's name to values of
# JSON's types. The values must be checked when they are read back, because anybody may have changed them.
Parts = Mapping[str, object]


class Promised:
    """The room that a system's plans need later, which a rebalancer must leave free when it moves jobs.

    This base class is for a system that plans nothing ahead: it allows every move and remembers none.
    """

    def leaves(self, job_uid: str, node: str) -> bool:
        """Tell whether the system's plans leave the job room to run on that node from now on."""
        return True

    def moved(self, job_uid: str, node: str) -> None:
        """Change the system's plans for a move by the rebalancer: the job runs on that node from now on."""

    def actions(self) -> tuple[Action, ...]:
        """Return the actions by which the system remembers the moves that ``moved`` was told of."""
        return ()


@dataclass(frozen=True, slots=True)
class Drift:
    """How far a job is behind its schedule or ahead of it, in worker-slots (one worker for one time slot).

    needed: the work that the job still needs by its last report. scheduled: the work that its schedule has from the
    report on. whole: all of the job's work. at: the time of the report, in seconds since the epoch. follows: how the
    schedule will be changed because of the drift, in words; empty if it will not be changed.
    """

    needed: float
    scheduled: float
    whole: float
    at: float
    follows: str

    @property
    def behind(self) -> float:
        """Return by how many worker-slots the job is late; a job that is early has a number below 0."""
        return self.needed - self.scheduled


class Policy(ABC):
    """A scheduling system.

    1. A system is a frozen set of parameters. What it must remember is in ``snapshot.memory``, and only ``Remember``
       actions change that.
    2. ``decide`` reads nothing but the parameters, the snapshot and the time that it is given.
    3. The actions of a decision are applied in their order, and all of them: an Admit may count on the room that a
       Resize before it frees.
    4. A decision has a verdict for every waiting job that it does not admit.

    Everything but ``name`` and ``decide`` has a default. Questions about room or the queue go to ``policy.base``: for a
    rebalanced system that is the system below the rebalancer. A subclass may replace a property of this class by a
    parameter of the same name, but only in a dataclass with slots. A parameter without a default must then be a
    ``field()``, because dataclasses would take the property for its default.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """The name under which the configuration selects the system."""

    @abstractmethod
    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Return the actions to take now, and why each waiting job waits. ``now``: seconds since the epoch."""

    @property
    def base(self) -> Policy:
        """The system that decides about room and the queue: this one, or the one below a rebalancer."""
        return self

    # -- The members below are about time. ---------------------------------------------------------

    def next_moment(self, now: float) -> float:
        """Return when the system must be asked next, whatever happens until then: the beginning of its next time slot.

        The moment is in seconds since the epoch, after ``now``; infinite if the system has no time slots.
        """
        del now
        return math.inf

    def next_change(self, snapshot: Snapshot, now: float) -> float | None:
        """Return the moment, at or after ``now``, from which on ``decide`` may act without any new fact.

        The answer holds only if ``decide`` does nothing now. It is in seconds since the epoch, and infinite if only new
        facts can change the decision. A moment that is too early only costs a decision without actions. None means that
        the system does not know the moment; it is then asked at every tick.
        """
        del snapshot, now
        return None

    @property
    def ahead_seconds(self) -> float:
        """How many seconds the system plans ahead, which is also how long its plan may pause a job."""
        return 0.0

    def prepare(self, snapshot: Snapshot, now: float) -> None:
        """Compute in idle time figures that the next decision may need, and cache them with the snapshot.

        The cached figures make the decision faster and do not change it.
        """
        del snapshot, now

    # -- The members below are about the queue. ----------------------------------------------------

    def weights(self, snapshot: Snapshot) -> Callable[[Job], float] | None:
        """Return the weight by which jobs are compared, as a function; None where the queue is not ordered by weight.

        The function is costly to make, because it looks at all nodes, and cheap to call: make it once for many jobs.
        """
        del snapshot
        return None

    def published(self, weight: float) -> float:
        """Return a job's weight, as ``weights`` computes it, in the form in which REST and the page show it."""
        return weight

    def starving(self, job: Job, now: float) -> bool:
        """Tell whether the job has waited so long that it comes before all others, whatever their weight."""
        del job, now
        return False

    @property
    def starve_limit(self) -> float:
        """After how many seconds of waiting a job starves; 0: no job ever starves."""
        return 0.0

    # -- The members below are about growth. -------------------------------------------------------

    @property
    def grows(self) -> bool:
        """Whether the system gives running jobs more workers whenever there is room.

        Other systems keep to the numbers that they have decided: workers that are taken from a job do not come back.
        """
        return False

    @property
    def grows_on(self) -> Where | None:
        """Which nodes a running job may grow on; None where the system has no such rule."""
        return None

    @property
    def cooldown(self) -> float:
        """For how many seconds a job that was resized is not grown; 0: it is grown at once."""
        return 0.0

    @property
    def idle_threshold(self) -> float | None:
        """For how many seconds room must have been idle before it is given to running jobs; None: it need not be."""
        return None

    def after_idling(self, snapshot: Snapshot, now: float) -> Snapshot:
        """Return a copy of the snapshot in which all free room has been idle for longer than ``idle_threshold``."""
        del now
        return snapshot

    # -- The member below is about random choices. -------------------------------------------------

    @property
    def draws(self) -> bool:
        """Whether the system makes random choices from its ``seed``, so that it may decide differently with another
        seed.
        """
        return False

    # -- The members below are about prices, promised room and schedules. --------------------------

    def prices(self, snapshot: Snapshot, now: float) -> Mapping[str, float]:
        """Return the price of one unit (a millicore, a byte, a piece) by resource; empty while nothing has a price."""
        del snapshot, now
        return {}

    def promised(self, snapshot: Snapshot, decided: Decision, now: float) -> Promised:
        """Return the room that the system's plans need later, as it is after the decision ``decided``."""
        del snapshot, decided, now
        return Promised()

    def against_schedule(self, snapshot: Snapshot, job_uid: str, now: float) -> Drift | None:
        """Return how far the job is behind its schedule or ahead of it; None without a schedule or progress report."""
        del snapshot, job_uid, now
        return None

    # -- The members below are about what the policy remembers. ------------------------------------

    @property
    def judges_once(self) -> bool:
        """Whether the system decides about each job only once, when it arrives."""
        return False

    def forget(self, memory: Mapping[str, object], job_uid: str) -> Mapping[str, object]:
        """Return the memory without the decision about that job, so that the job is judged as if it arrived now."""
        del job_uid
        return memory

    @property
    def keeps(self) -> bool:
        """Whether what the system remembers of a job is written to the job's object and read back at a restart."""
        return False

    def parts(self, memory: Mapping[str, object]) -> Mapping[str, Parts]:
        """Return by job uid the part of the memory that is to be written to the job's object.

        ``recalled`` restores the memory from these parts.
        """
        del memory
        return {}

    def recalled(self, snapshot: Snapshot, parts: Mapping[str, Parts]) -> Mapping[str, object]:
        """Return the entries of ``snapshot.memory`` that are read back from ``parts``; invalid parts are left out.

        ``parts``: by job uid, what the job's object holds.
        """
        del snapshot, parts
        return {}


class Rebalancer(Policy):
    """A system that can also move running jobs after another system's decisions."""

    __slots__ = ()

    @abstractmethod
    def moves(
        self, snapshot: Snapshot, decided: Decision, now: float, promised: Promised | None = None
    ) -> tuple[Action, ...]:
        """Return the actions that move running jobs, and those by which the rebalancer remembers the moves.

        decided: the other system's decision in this step. Jobs that have an action in it are not moved, and room that
        it gives away is not used. promised: the room that the other system's plans need later; it is not used either.
        """


def above_0(system: Any, *names: str) -> None:
    """Raise ValueError unless each parameter in ``names`` is above 0 and finite."""
    for name in names:
        if not 0.0 < getattr(system, name) < math.inf:
            raise _error(system, name, "above 0, and finite")


def from_0(system: Any, *names: str) -> None:
    """Raise ValueError unless each parameter in ``names`` is 0 or more, and finite."""
    for name in names:
        if not 0.0 <= getattr(system, name) < math.inf:
            raise _error(system, name, "0 or more, and finite")


def up_to(system: Any, most: float, *names: str) -> None:
    """Raise ValueError unless each parameter in ``names`` is from 0 to ``most``."""
    for name in names:
        if not 0 <= getattr(system, name) <= most:
            raise _error(system, name, f"from 0 to {most:,}")


def patience(system: Any, *names: str) -> None:
    """Raise ValueError unless each parameter in ``names`` is a number of seconds of 0 or more; infinite means never."""
    for name in names:
        if not getattr(system, name) >= 0.0:
            raise _error(system, name, "0 or more")


def share(system: Any, *names: str) -> None:
    """Raise ValueError unless each parameter in ``names`` is from 0 to 1, as the share of a whole."""
    for name in names:
        if not 0.0 <= getattr(system, name) <= 1.0:
            raise _error(system, name, "from 0 to 1")


def _error(system: Any, name: str, allowed: str) -> ValueError:
    return ValueError(f"{system.name}: {name} is {getattr(system, name)!r}, must be {allowed}")
