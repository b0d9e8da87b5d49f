"""What a scheduling system is to the rest of Kohort: one base class, whose defaults are those of a plain system."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from policy.cluster.actions import Action, Decision
from policy.cluster.model import Job
from policy.cluster.snapshot import Snapshot
from policy.placement.grow import Where

# What one job's object holds of a policy's memory, by system: JSON's types, to be checked by whoever reads them.
Parts = Mapping[str, object]


class Promised:
    """What a system has promised of the time to come, to a rebalancer that moves jobs after its decisions.

    This class stands for a system that promises nothing.
    """

    def leaves(self, job_uid: str, node: str) -> bool:
        """Tell whether the system leaves the job the room to sit on that node from now on."""
        return True

    def moved(self, job_uid: str, node: str) -> None:
        """Note that the job sits on that node from now on."""

    def actions(self) -> tuple[Action, ...]:
        """Return what the system remembers of these moves."""
        return ()


@dataclass(frozen=True, slots=True)
class Drift:
    """How a job stands against its schedule, in worker-slots (a worker that runs for a slot), as of its last report.

    needed: what the job still needs by that report; scheduled: what its schedule has for it from then on; whole: all of
    its work. at: time of the report, seconds since the epoch. follows: what is done about it, in words; empty: nothing.
    """

    needed: float
    scheduled: float
    whole: float
    at: float
    follows: str

    @property
    def behind(self) -> float:
        """Return by how many worker-slots the job is late; below 0 it is early."""
        return self.needed - self.scheduled


class Policy(ABC):
    """A scheduling system.

    1. It is a frozen bag of parameters; what it must remember lives in ``snapshot.memory`` and changes by ``Remember``.
    2. ``decide`` reads the snapshot and the time it is given, and nothing else.
    3. The actions are applied in their order and as a whole: an Admit may count on the Resize before it.
    4. There is a verdict for every waiting job that is not admitted.

    Everything but ``name`` and ``decide`` has a default. Whoever asks about room or the queue asks ``policy.base``:
    under a rebalancer that is the system beneath it.

    A parameter of the same name takes the place of a property here only in a dataclass with slots, and without a
    default it must be a ``field()``: else dataclasses takes the property for its default.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """The name under which the configuration selects the system."""

    @abstractmethod
    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Return what to do now. ``now``: seconds since the epoch."""

    @property
    def base(self) -> Policy:
        """The system that decides about room and the queue: this one, or the one beneath a rebalancer."""
        return self

    # -- time --------------------------------------------------------------------------------------

    def next_moment(self, now: float) -> float:
        """Return when the system wants to be asked next, whatever happens until then: the beginning of its next slot.

        Seconds since the epoch, after ``now``; infinite where the system has no such moments.
        """
        del now
        return math.inf

    def next_change(self, snapshot: Snapshot, now: float) -> float | None:
        """Return a moment, at or after ``now``, before which ``decide`` does nothing here if it does nothing now.

        Seconds since the epoch; infinite where only facts can change the decision. An earlier moment costs no more than
        a decision without actions. None: the system does not know, and is asked at every tick.
        """
        del snapshot, now
        return None

    @property
    def ahead_seconds(self) -> float:
        """How far ahead the system plans: for so long every job may pause under it."""
        return 0.0

    def prepare(self, snapshot: Snapshot, now: float) -> None:
        """Work out, while nothing happens, what the next decision may ask, and keep it with the snapshot.

        No decision differs for it.
        """
        del snapshot, now

    # -- the queue ---------------------------------------------------------------------------------

    def weights(self, snapshot: Snapshot) -> Callable[[Job], float] | None:
        """Return the weight by which jobs are compared, as a function; None where the queue is not ordered by weight.

        The nodes are looked at once, so ask once and weigh many jobs.
        """
        del snapshot
        return None

    def published(self, weight: float) -> float:
        """Return that weight as people are shown it."""
        return weight

    def starving(self, job: Job, now: float) -> bool:
        """Tell whether the job goes before every weight."""
        del job, now
        return False

    @property
    def starve_limit(self) -> float:
        """For how many seconds a job waits before it starves; 0: no job ever starves."""
        return 0.0

    # -- growth ------------------------------------------------------------------------------------

    @property
    def grows(self) -> bool:
        """Whether the system gives running jobs more workers whenever there is room.

        Other systems keep to the numbers that they have named: workers that are taken back stay away.
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
        """Return the snapshot as if nothing had changed for longer than ``idle_threshold``."""
        del now
        return snapshot

    # -- drawing -----------------------------------------------------------------------------------

    @property
    def draws(self) -> bool:
        """Whether the system draws by its ``seed``, so that another seed can decide otherwise."""
        return False

    # -- prices, promises, schedules ---------------------------------------------------------------

    def prices(self, snapshot: Snapshot, now: float) -> Mapping[str, float]:
        """Return the price of one unit (a millicore, a byte, a piece) by resource; empty while nothing has a price."""
        del snapshot, now
        return {}

    def promised(self, snapshot: Snapshot, decided: Decision, now: float) -> Promised:
        """Return what stands promised once ``decided`` is carried out."""
        del snapshot, decided, now
        return Promised()

    def against_schedule(self, snapshot: Snapshot, job_uid: str, now: float) -> Drift | None:
        """Return how the job stands against its schedule; None where it has none, or has not reported how far it is."""
        del snapshot, job_uid, now
        return None

    # -- memory ------------------------------------------------------------------------------------

    @property
    def judges_once(self) -> bool:
        """Whether the system decides about each job when it comes, and keeps to that."""
        return False

    def forget(self, memory: Mapping[str, object], job_uid: str) -> Mapping[str, object]:
        """Return the memory as if the job had not been decided about: what it would be judged by if it came now."""
        del job_uid
        return memory

    @property
    def keeps(self) -> bool:
        """Whether what the system remembers of a job stands on the job's object and is read at a restart."""
        return False

    def parts(self, memory: Mapping[str, object]) -> Mapping[str, Parts]:
        """Return what each job's object should hold (by job uid): all that ``recalled`` needs."""
        del memory
        return {}

    def recalled(self, snapshot: Snapshot, parts: Mapping[str, Parts]) -> Mapping[str, object]:
        """Return the changes to ``snapshot.memory`` that these parts make; a part that makes no sense is left out."""
        del snapshot, parts
        return {}


class Rebalancer(Policy):
    """A system that can also move running jobs after another one's decisions."""

    __slots__ = ()

    @abstractmethod
    def moves(
        self, snapshot: Snapshot, decided: Decision, now: float, promised: Promised | None = None
    ) -> tuple[Action, ...]:
        """Return moves, and what the system remembers of them.

        It moves no job that ``decided`` touches, and into no room that ``decided`` gives away or that is ``promised``.
        """
