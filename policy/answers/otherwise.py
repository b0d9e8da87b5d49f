"""Finds what another policy would decide in each state in which the recorded policy decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from policy.cluster.actions import Action, Admit, Decision, Migrate, Reject, Remember, Resize
from policy.cluster.job import Slot
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Parts, Policy


@dataclass(frozen=True, slots=True)
class Told:
    """One action of a policy in words, for the comparison of two policies.

    verb: start, resize, move or reject. job: ``namespace/name``, or ``?`` for a job that is gone. what: the rest of the
    sentence, such as the workers and nodes, with a leading space or colon.
    """

    verb: str
    job: str
    what: str

    @property
    def text(self) -> str:
        """The whole action, such as ``start team/mnist with 2 on n1 (3)``."""
        return f"{self.verb} {self.job}{self.what}"


@dataclass(frozen=True, slots=True)
class Difference:
    """The actions of two policies in a step in which they decide differently.

    at: the time of the step, in seconds since the epoch. mine: the recorded policy's actions. other: those of the other
    policy.
    """

    at: float
    mine: tuple[Told, ...]
    other: tuple[Told, ...]


@dataclass(slots=True)
class Beside(Policy):
    """A policy that decides as ``policy`` does, and in each state also asks ``other`` what it would decide.

    memory: what ``other`` remembers. asked: the number of decisions so far. counts: the numbers of actions by policy
    (``recorded`` or ``other``) and verb. differences: the decisions that differ since the last call of ``taken``.
    """

    policy: Policy
    other: Policy
    memory: dict[str, object] = field(default_factory=dict)
    asked: int = 0
    counts: dict[str, Counter[str]] = field(default_factory=lambda: {"recorded": Counter(), "other": Counter()})
    differences: list[Difference] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The deciding policy's name."""
        return self.policy.name

    @property
    def grows(self) -> bool:
        """Whether the deciding policy gives running jobs more workers whenever there is room."""
        return self.policy.base.grows

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Return the deciding policy's decision, and note the difference if the other policy would decide otherwise."""
        decision = self.policy.decide(snapshot, now)
        answer = self.other.decide(replace(snapshot, memory=dict(self.memory)), now)
        self.memory |= {action.key: action.value for action in answer.actions if isinstance(action, Remember)}
        self.asked += 1
        mine, its = told(snapshot, decision), told(snapshot, answer)
        self.counts["recorded"].update(action.verb for action in mine)
        self.counts["other"].update(action.verb for action in its)
        if mine != its:
            self.differences.append(Difference(now, mine, its))
        return decision

    @property
    def keeps(self) -> bool:
        """Whether the deciding policy writes what it remembers of a job to the job's object."""
        return self.policy.keeps

    def parts(self, memory: Mapping[str, object]) -> Mapping[str, Parts]:
        """Return by job uid the part of the deciding policy's memory that is to be written to the job's object."""
        return self.policy.parts(memory)

    def recalled(self, snapshot: Snapshot, parts: Mapping[str, Parts]) -> Mapping[str, object]:
        """Return the deciding policy's memory, restored from ``parts``.

        ``parts``: by job uid, what was written to the job's object.
        """
        return self.policy.recalled(snapshot, parts)

    def taken(self) -> list[Difference]:
        """Return the differences noted since the last call of ``taken``, and forget them."""
        found, self.differences = self.differences, []
        return found


def told(snapshot: Snapshot, decision: Decision) -> tuple[Told, ...]:
    """Return the decision's actions in words, without those by which the policy remembers something."""
    return tuple(_told(snapshot, action) for action in decision.actions if not isinstance(action, Remember))


def _told(snapshot: Snapshot, action: Action) -> Told:
    job = snapshot.jobs.get(action.job_uid) if not isinstance(action, Remember) else None
    name = job.key if job is not None else "?"
    match action:
        case Admit():
            return Told("start", name, f" with {action.workers} on {_nodes(action.nodes)}")
        case Resize():
            had = snapshot.gang(action.job_uid).workers
            where = f" on {_nodes(action.nodes)}" if action.nodes else ""
            return Told("resize", name, f" {had} -> {action.workers}{where}")
        case Migrate():
            return Told("move", name, f" to {_nodes(action.nodes)}")
        case Reject():
            return Told("reject", name, f": {action.reason.value}")
        case Remember():
            return Told("remember", name, "")


def _nodes(nodes: Mapping[Slot, str]) -> str:
    counts = Counter(nodes.values())
    return ", ".join(f"{node} ({count})" for node, count in sorted(counts.items()))
