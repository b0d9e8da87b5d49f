"""What a scheduling system is to the rest of Kohort."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from policy.cluster.actions import Action, Decision
from policy.cluster.snapshot import Snapshot


class Policy(Protocol):
    """A scheduling system.

    1. It is a frozen bag of parameters; what it must remember lives in ``snapshot.memory`` and changes by ``Remember``.
    2. ``decide`` reads the snapshot and the time it is given, and nothing else.
    3. The actions are applied in their order and as a whole: an Admit may count on the Resize before it.
    4. There is a verdict for every waiting job that is not admitted.
    """

    @property
    def name(self) -> str:
        """The name under which the configuration selects it."""
        ...

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """What to do now. ``now``: seconds since the epoch."""
        ...


@runtime_checkable
class Based(Protocol):
    """A system that leaves all but its moves to another one beneath it."""

    @property
    def base(self) -> Policy:
        """The one beneath."""
        ...


P = TypeVar("P")


def base_of(policy: P) -> P | Policy:
    """The system that decides about room and the queue: the one beneath, or itself."""
    return policy.base if isinstance(policy, Based) else policy


@runtime_checkable
class Foresees(Protocol):
    """A system that knows when time alone may change its mind: before that a tick need not ask it."""

    def next_change(self, snapshot: Snapshot, now: float) -> float:
        """A moment, at or after ``now``, before which ``decide`` would do nothing here if it does nothing now.

        Seconds since the epoch; infinite where only facts can change the decision. An earlier moment costs no more than
        a decision without actions.
        """
        ...


@runtime_checkable
class KeepsTime(Protocol):
    """A system with moments of its own, the beginnings of its slots: a step is made then, and not at the next tick."""

    def next_moment(self, now: float) -> float:
        """The first of them after ``now``. Seconds since the epoch; infinite where there is none."""
        ...


@runtime_checkable
class Draws(Protocol):
    """A system with a ``seed`` to draw by: whether it draws, as its other parameters are."""

    @property
    def draws(self) -> bool:
        """Whether another seed can decide otherwise."""
        ...


def draws(policy: object) -> bool:
    """Whether another seed of the policy can decide otherwise. Of a rebalanced one the base counts."""
    deciding = base_of(policy)
    return isinstance(deciding, Draws) and deciding.draws


def next_moment(policy: Policy, now: float) -> float:
    """When that system wants to be asked next, whatever happens until then; infinite where it does not say."""
    return policy.next_moment(now) if isinstance(policy, KeepsTime) else math.inf


@runtime_checkable
class PlansAhead(Protocol):
    """A system under which everybody may pause until a time that it has planned for."""

    @property
    def ahead_seconds(self) -> float:
        """How far ahead it plans."""
        ...


def ahead_seconds(policy: object) -> float:
    """How far ahead that system plans, or the one that decides beneath a rebalancer; 0 where it does not."""
    deciding = base_of(policy)
    return deciding.ahead_seconds if isinstance(deciding, PlansAhead) else 0.0


@runtime_checkable
class Prepares(Protocol):
    """A system with answers that take long the first time: they can be worked out while nothing happens."""

    def prepare(self, snapshot: Snapshot, now: float) -> None:
        """Have them remembered with the snapshot; no decision is another one for it."""
        ...


def prepare(policy: object, snapshot: Snapshot, now: float) -> None:
    """Work out beforehand what the next decision may ask; nothing, where the system has nothing to work out."""
    if isinstance(policy, Prepares):
        policy.prepare(snapshot, now)


def grows_again(policy: object) -> bool:
    """Whether the system gives running jobs more workers whenever there is room (its class says ``grows``).

    Of a rebalanced one the base counts. Others keep to the numbers they have named: what is taken back stays away.
    """
    return bool(getattr(base_of(policy), "grows", False))


@runtime_checkable
class Prices(Protocol):
    """A system that sells room: what it costs now can be told."""

    def prices(self, snapshot: Snapshot, now: float) -> Mapping[str, float]:
        """Resource -> price of one unit of it (a millicore, a byte, a piece); empty while nothing has a price."""
        ...


def prices_of(policy: object, snapshot: Snapshot, now: float) -> Mapping[str, float]:
    """The prices of the policy, or of the one that decides beneath a rebalancer; none where it has no prices."""
    deciding = base_of(policy)
    return deciding.prices(snapshot, now) if isinstance(deciding, Prices) else {}


class Promised:
    """What a system has promised of the time to come, to one who moves jobs beneath its decisions: nothing, unless it
    says otherwise.
    """

    def leaves(self, job_uid: str, node: str) -> bool:
        """Whether it leaves that job the room to sit on that node from now on."""
        return True

    def moved(self, job_uid: str, node: str) -> None:
        """The job sits there from now on."""

    def actions(self) -> tuple[Action, ...]:
        """What it remembers of these moves."""
        return ()


@runtime_checkable
class Promises(Protocol):
    """A system that promises room before it gives it."""

    def promised(self, snapshot: Snapshot, decided: Decision, now: float) -> Promised:
        """What stands promised once ``decided`` is carried out."""
        ...


def promised_by(policy: Policy, snapshot: Snapshot, decided: Decision, now: float) -> Promised:
    """What that system has promised; nothing where it makes no promises."""
    return policy.promised(snapshot, decided, now) if isinstance(policy, Promises) else Promised()


@dataclass(frozen=True, slots=True)
class Drift:
    """How a job stands against its schedule, in worker-slots (a worker that runs for a slot), as of its last report.

    needed: what it still needs by that report; scheduled: what its schedule has for it from then on; whole: all of its
    work. at: time of the report, seconds since the epoch. follows: what is done about it, in words; empty: nothing.
    """

    needed: float
    scheduled: float
    whole: float
    at: float
    follows: str

    @property
    def behind(self) -> float:
        """By how many worker-slots it is late; below 0 it is early."""
        return self.needed - self.scheduled


@runtime_checkable
class Schedules(Protocol):
    """A system that commits itself to a schedule for each job."""

    def against_schedule(self, snapshot: Snapshot, job_uid: str, now: float) -> Drift | None:
        """How the job stands against it; None where it has none, or has not reported how far it is."""
        ...


def drift_of(policy: object, snapshot: Snapshot, job_uid: str, now: float) -> Drift | None:
    """The drift by the policy, or by the one that decides beneath a rebalancer; None where it has no schedules."""
    deciding = base_of(policy)
    return deciding.against_schedule(snapshot, job_uid, now) if isinstance(deciding, Schedules) else None


@runtime_checkable
class JudgesOnce(Protocol):
    """A system that decides about each job when it comes, and keeps to that."""

    def forget(self, memory: Mapping[str, object], job_uid: str) -> Mapping[str, object]:
        """The memory as if the job had not been decided about: what it would be judged by if it came now."""
        ...


# What one job's object holds of a policy's memory, by system: JSON's types, to be checked by whoever reads them.
Parts = Mapping[str, object]


@runtime_checkable
class Keeps(Protocol):
    """A system that must not forget: what it remembers of a job stands on the job's object and is read at a restart."""

    def parts(self, memory: Mapping[str, object]) -> Mapping[str, Parts]:
        """What each job's object should hold (by job uid). It must be all that ``recalled`` needs."""
        ...

    def recalled(self, snapshot: Snapshot, parts: Mapping[str, Parts]) -> Mapping[str, object]:
        """The memory that these parts make: changes to ``snapshot.memory``. A part that makes no sense is left out."""
        ...
