"""What a policy may ask for, and what a step asks of the outside world."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from policy.cluster.model import Slot
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.refusedwrite import RefusedWrite


@dataclass(frozen=True, slots=True)
class Admit:
    """Start the job with ``workers`` workers on these nodes; ``waits_for``: pods whose room it takes over.

    ``whole``: its members are bound together or not at all. A policy without gangs says False, names the nodes that it
    has, and adds others by ``Resize``. ``ps``: how many ps, where the policy schedules them (OASiS); else as asked.
    """

    job_uid: str
    workers: int
    nodes: Mapping[Slot, str]
    waits_for: Collection[str] = ()
    whole: bool = True
    ps: int | None = None


@dataclass(frozen=True, slots=True)
class Resize:
    """Give the job ``workers`` workers; ``nodes`` has the node of each member that is given one.

    ``on_behalf_of``: the job uid that a shrink frees room for. ``waits_for``: pods whose room the nodes take over.
    ``ps``: as in Admit.
    """

    job_uid: str
    workers: int
    nodes: Mapping[Slot, str] = field(default_factory=dict)
    on_behalf_of: str = ""
    waits_for: Collection[str] = ()
    ps: int | None = None

    @property
    def pauses(self) -> bool:
        """Whether the gang is given no workers and no nodes: it holds no room until it is admitted again.

        Its members are released. Meanwhile it is among the jobs that wait, and the policy says why. With ``ps`` its
        object asks for so many before it goes on; a gang that has no members may be told that alone. A gang without a
        worker role has no workers, too, but a member that is given another node has that node.
        """
        return not self.workers and not self.nodes


@dataclass(frozen=True, slots=True)
class Migrate:
    """Move the whole running job to these nodes, one for each member: checkpoint, evict, bind the successors.

    The new room is charged at once and must be free; the old is freed as the old pods go.
    """

    job_uid: str
    nodes: Mapping[Slot, str]


@dataclass(frozen=True, slots=True)
class Reject:
    """Refuse the job, with the reason and the figures behind it. The policy remembers whom it has refused for good."""

    job_uid: str
    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Remember:
    """Change the policy's memory in the snapshot; None forgets the key."""

    key: str
    value: object


Action = Admit | Resize | Migrate | Reject | Remember


@dataclass(frozen=True, slots=True)
class Decision:
    """A policy's answer: actions, applied whole, and why each waiting job waits."""

    actions: tuple[Action, ...] = ()
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bind:
    """Create this binding now, with the pod's uid as precondition and plan and slot as annotations."""

    uid: str
    namespace: str
    name: str
    node: str
    plan: str
    slot: Slot


@dataclass(frozen=True, slots=True)
class RefuseBind:
    """Answer the held bind of this pod with an error."""

    uid: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Released:
    """The plan of a gang was given up, with the reason."""

    job_uid: str
    plan: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Stalled:
    """Of the ``workers`` that a running job was given, the last ``missing`` have not come in their time.

    given_back: their room is free again; else they are awaited for as long again, or as long as it takes.
    """

    job_uid: str
    workers: int
    missing: int
    given_back: bool


@dataclass(frozen=True, slots=True)
class ShrinkStalled:
    """A job was shrunk to ``workers``; ``left`` of those taken had not gone when the plan that waited for them ended.

    ``on_behalf_of``: the job of that plan.
    """

    job_uid: str
    workers: int
    left: int
    on_behalf_of: str


@dataclass(frozen=True, slots=True)
class Preempted:
    """Another scheduler has preempted members of the job, which had these nodes.

    ``by``: the pods (namespace/name) that are nominated there, as far as their nominations have been shown.
    """

    job_uid: str
    nodes: Mapping[Slot, str]
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edited:
    """Somebody else has changed a number of the job. what: workers, min-workers or max-workers.

    kept: it is in force now; else it is set back, for growth is the policy's to give.
    """

    job_uid: str
    what: str
    before: int
    after: int
    kept: bool


What = Literal["Bound", "Repaired", "Moved", "Shrunk", "Grown", "Paused"]


@dataclass(frozen=True, slots=True)
class Shown:
    """The API shows that what was planned for a job is done.

    members: its pods that are bound now, on ``hosts`` nodes. workers: of a resize, the new number; ``before``: the old
    one. on_behalf_of: the job that the workers were taken for.
    """

    job_uid: str
    what: What
    workers: int
    members: int
    hosts: int
    before: int = 0
    on_behalf_of: str = ""


@dataclass(frozen=True, slots=True)
class WriteRefused:
    """The API server refuses a write that the job needs; it is tried again. job_uid: empty of the admission gate.

    on_behalf_of: the job that waits for the room which the write was to free.
    """

    job_uid: str
    refused: RefusedWrite
    on_behalf_of: str = ""


Outcome = Edited | Released | Stalled | ShrinkStalled | Preempted | Shown | WriteRefused
Effect = Action | Bind | RefuseBind | Outcome
