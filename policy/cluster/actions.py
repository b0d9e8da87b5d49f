"""The actions that a policy may decide, and the effects that a step returns: instructions, and records of decisions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from policy.cluster.job import Slot
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.refusedwrite import RefusedWrite


@dataclass(frozen=True, slots=True)
class Admit:
    """Give the waiting job a plan with ``workers`` workers on these nodes, one for each slot.

    waits_for: uids of the pods whose room the plan takes over; they must be gone before any member is bound.
    whole: whether the members are bound together or not at all. A policy that places pod by pod sets it to False: it
    names the nodes found so far, and places the rest later by ``Resize``.
    ps: how many ps the job gets, if the policy schedules them (OASiS); None means as many as the job object asks for.
    """

    job_uid: str
    workers: int
    nodes: Mapping[Slot, str]
    waits_for: Collection[str] = ()
    whole: bool = True
    ps: int | None = None


@dataclass(frozen=True, slots=True)
class Resize:
    """Give the job ``workers`` workers from now on.

    nodes: the node of each member that is placed by this action; members that are left out keep their nodes.
    on_behalf_of: uid of the job for which a shrink frees room; empty for any other resize.
    waits_for: uids of the pods whose room the nodes take over.
    ps: how many ps the job gets; None leaves their number as it is.
    """

    job_uid: str
    workers: int
    nodes: Mapping[Slot, str] = field(default_factory=dict)
    on_behalf_of: str = ""
    waits_for: Collection[str] = ()
    ps: int | None = None

    @property
    def pauses(self) -> bool:
        """Return whether this action pauses the gang, which is so if it gives 0 workers and names no nodes.

        The members of a paused gang are released, and the gang holds no room until it is admitted again. Until then the
        job counts as waiting, with a reason from the policy, and ``ps`` is the number of ps that the job object must
        ask for before the job goes on. (A gang without a worker role always has 0 workers, so ``nodes`` decides.)
        """
        return not self.workers and not self.nodes


@dataclass(frozen=True, slots=True)
class Migrate:
    """Move the whole running job to these nodes, one for each slot.

    Its training is asked for a checkpoint, its pods are evicted, and their successors are bound on the new nodes. The
    new room must be free and is charged at once; the old room is freed as the old pods go.
    """

    job_uid: str
    nodes: Mapping[Slot, str]


@dataclass(frozen=True, slots=True)
class Reject:
    """Give the waiting job no room in this step, for this reason; ``detail`` has the reason's figures in words.

    A later step asks the policy about the job again. If the job is refused for good, the policy has to store that fact
    itself (``Remember``).
    """

    job_uid: str
    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Remember:
    """Store ``value`` under ``key`` in the policy's memory, a part of the snapshot; the value None removes the key."""

    key: str
    value: object


Action = Admit | Resize | Migrate | Reject | Remember


@dataclass(frozen=True, slots=True)
class Decision:
    """A policy's decision in one step: its actions, and why each waiting job waits.

    The step carries out the actions in the order of the tuple. ``verdicts`` maps job uids to reasons.
    """

    actions: tuple[Action, ...] = ()
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bind:
    """Instruct the service to bind the pod to the node now, with the uid as a precondition.

    The names of the plan and of the slot are written on the pod as annotations.
    """

    uid: str
    namespace: str
    name: str
    node: str
    plan: str
    slot: Slot


@dataclass(frozen=True, slots=True)
class RefuseBind:
    """Instruct the service to answer kube-scheduler's bind call for this pod with an error that gives the reason."""

    uid: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Released:
    """The gang of the job has given up the plan with the name ``plan``, for this reason."""

    job_uid: str
    plan: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Stalled:
    """Of the ``workers`` that a running job was given, the last ``missing`` have not come within ``growing_seconds``.

    given_back: whether the job was shrunk to the workers that are there, which frees the room. If not, the missing
    workers are still awaited, once more or without a limit.
    """

    job_uid: str
    workers: int
    missing: int
    given_back: bool


@dataclass(frozen=True, slots=True)
class ShrinkStalled:
    """A job was shrunk to ``workers`` for another job's plan, but that plan was given up before all workers had gone.

    left: how many of the workers that were to go are still there. on_behalf_of: uid of the other job.
    """

    job_uid: str
    workers: int
    left: int
    on_behalf_of: str


@dataclass(frozen=True, slots=True)
class Preempted:
    """Another scheduler has preempted members of the job.

    nodes: the node that each of these members had. by: the pods (namespace/name) that are nominated for these nodes, if
    their nominations have been seen already.
    """

    job_uid: str
    nodes: Mapping[Slot, str]
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edited:
    """Somebody other than Kohort has changed a number in the job object.

    what: which number it is: workers, min-workers or max-workers. before, after: the old and the new number.
    kept: whether the new number is in force now; if not, Kohort sets it back, because only the policy grows a job.
    """

    job_uid: str
    what: str
    before: int
    after: int
    kept: bool


@dataclass(frozen=True, slots=True)
class NodeFailed:
    """A member of the job has failed on the node while the job's members on other nodes lived on.

    jobs: of how many different jobs members have failed on the node. until: until when the node is avoided, in seconds
    since the epoch; 0 if it is not. barred: whether nothing is placed there until then; if not, it is used last.
    """

    job_uid: str
    node: str
    jobs: int
    until: float
    barred: bool


@dataclass(frozen=True, slots=True)
class NodeForgiven:
    """The node is no longer avoided. by_hand: whether an administrator has forgiven it; if not, time has passed."""

    node: str
    by_hand: bool


What = Literal["Bound", "Repaired", "Moved", "Shrunk", "Grown", "Paused"]


@dataclass(frozen=True, slots=True)
class Shown:
    """The API shows that a decision about a job has been carried out; ``what`` says which kind of decision.

    members: how many pods of the job are bound now. hosts: on how many nodes they are. workers: its number of workers.
    before: the number of workers before a resize. on_behalf_of: uid of the job for which a shrink took the workers;
    empty for anything but a shrink.
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
    """The API server refuses a write that the job needs; the controller tries it again.

    job_uid: empty if the write is the switch of the admission gate, which belongs to no job.
    on_behalf_of: uid of the job that waits for the room which the write should free; empty if there is none.
    """

    job_uid: str
    refused: RefusedWrite
    on_behalf_of: str = ""


Outcome = Edited | Released | Stalled | ShrinkStalled | Preempted | Shown | WriteRefused | NodeFailed | NodeForgiven
Instruction = Bind | RefuseBind
"""An effect that the service carries out at once."""
DecisionRecord = Action | Outcome
"""An effect that is only recorded and shown: an action that the new snapshot already has, or the outcome of one."""
Effect = Instruction | DecisionRecord
