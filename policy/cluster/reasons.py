"""The closed list of reasons, each with one constant text.

A text never holds a count, a name or a time. kube-scheduler writes the text into the pod's condition, and tries the pod
again at once after each change of the condition. (Texts that varied led to 17 filter calls a second for one pod.)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Concern(Enum):
    """The subject of a reason: what keeps the job from running.

    ROOM: the gang lacks room, or nodes that may take it.
    RELEASE: pods of the gang's last run still hold room.
    DECISION: the policy has decided to give the gang no room.
    JOB: the job object is malformed, suspended, finished or being deleted.
    PODS: pods of the gang are missing, or cannot be placed.
    ATTEMPT: a plan has failed, or a write was refused.
    SERVICE: this process cannot decide now.
    """

    ROOM = "room"
    RELEASE = "release"
    DECISION = "decision"
    JOB = "job"
    PODS = "pods"
    ATTEMPT = "attempt"
    SERVICE = "service"


class Lasts(Enum):
    """How long a reason holds: what must happen before the job can run.

    TURN: other jobs end, and this job's turn comes.
    LIMIT: the limit of resizes per minute allows another resize.
    TIME: a known time is reached, such as the end of a back-off.
    FREED: pods of Kohort's jobs free their room.
    OTHERS: foreign pods free their room.
    CHANGE: the job, the nodes or the settings are changed.
    MOMENT: the next event about the job may already end the reason.
    """

    TURN = "turn"
    LIMIT = "limit"
    TIME = "time"
    FREED = "freed"
    OTHERS = "others"
    CHANGE = "change"
    MOMENT = "moment"


class Reason(Enum):
    """Why a pod or a job is not given a node now; ``value`` is the CamelCase code, ``text`` the constant sentence."""

    NOT_SYNCED = "LedgerNotReady"
    UNKNOWN_JOB = "JobUnknown"
    INVALID = "JobInvalid"
    NOT_A_MEMBER = "NotAMember"
    UNSUPPORTED = "ConstraintUnsupported"
    SUSPENDED = "JobSuspended"
    FINISHED = "JobFinished"
    DELETING = "JobBeingDeleted"
    WAITING_FOR_PODS = "WaitingForPods"
    NO_ROOM = "WaitingForRoom"
    ROOM_HELD = "RoomHeldByFinishedJobs"
    ROOM_OF_OTHERS = "RoomHeldByOtherPods"
    ROOM_BEING_FREED = "RoomBeingFreed"
    RESIZE_REFUSED = "ResizeRefused"
    RESIZES_LIMITED = "ResizesLimited"
    STALLED = "GrowthStalled"
    SHRINK_STALLED = "ShrinkStalled"
    BEHIND = "BehindHeavierJob"
    TOO_LARGE = "GangExceedsCluster"
    NODES_CLOSED = "NodesClosed"
    WINDOW_TOO_SHORT = "GangExceedsWindow"
    BACKING_OFF = "BackingOff"
    RELEASING = "GangBeingReleased"
    PAUSED = "JobPaused"
    SCHEDULE_OVER = "ScheduleOver"
    REJECTED = "JobRejected"
    STORING = "DecisionBeingStored"
    SURPLUS = "MoreWorkersThanGiven"
    SURPLUS_FIRST = "SurplusGoesFirst"
    NODE_NOT_OFFERED = "PlannedNodeNotOffered"
    BARRIER_TIMEOUT = "BarrierTimedOut"
    REPAIR_FAILED = "RepairFailed"
    BARRIER_FULL = "BarrierFull"
    PLAN_CHANGED = "PlanChanged"
    ROOM_TAKEN = "RoomTaken"
    PREEMPTED = "MembersPreempted"
    MEMBER_REFUSED = "MemberRefused"
    MEMBERS_UNPLACED = "MembersWaitForRoom"
    POD_GONE = "PodGone"
    BIND_FAILED = "BindFailed"
    NOT_LEADING = "NotLeading"

    @property
    def text(self) -> str:
        """The constant sentence of this reason, which kube-scheduler shows to users."""
        return TEXTS[self]

    @property
    def concern(self) -> Concern:
        """What keeps the job from running, as a Concern."""
        return CLASSES[self][0]

    @property
    def lasts(self) -> Lasts:
        """What must happen before this reason no longer holds, as a Lasts."""
        return CLASSES[self][1]

    @property
    def needs_change(self) -> bool:
        """Whether the job could not run even if Kohort's other jobs gave up room.

        Foreign pods must go, or the job, the nodes or the settings must be changed.
        """
        return self.lasts in (Lasts.OTHERS, Lasts.CHANGE)


CLASSES: dict[Reason, tuple[Concern, Lasts]] = {
    Reason.NOT_SYNCED: (Concern.SERVICE, Lasts.MOMENT),
    Reason.UNKNOWN_JOB: (Concern.JOB, Lasts.CHANGE),
    Reason.INVALID: (Concern.JOB, Lasts.CHANGE),
    Reason.NOT_A_MEMBER: (Concern.JOB, Lasts.CHANGE),
    Reason.UNSUPPORTED: (Concern.JOB, Lasts.CHANGE),
    Reason.SUSPENDED: (Concern.JOB, Lasts.MOMENT),
    Reason.FINISHED: (Concern.JOB, Lasts.MOMENT),
    Reason.DELETING: (Concern.JOB, Lasts.MOMENT),
    Reason.WAITING_FOR_PODS: (Concern.PODS, Lasts.MOMENT),
    Reason.NO_ROOM: (Concern.ROOM, Lasts.TURN),
    Reason.ROOM_HELD: (Concern.ROOM, Lasts.FREED),
    Reason.ROOM_OF_OTHERS: (Concern.ROOM, Lasts.OTHERS),
    Reason.ROOM_BEING_FREED: (Concern.ROOM, Lasts.FREED),
    Reason.RESIZE_REFUSED: (Concern.ATTEMPT, Lasts.MOMENT),
    Reason.RESIZES_LIMITED: (Concern.ROOM, Lasts.LIMIT),
    Reason.STALLED: (Concern.PODS, Lasts.MOMENT),
    Reason.SHRINK_STALLED: (Concern.PODS, Lasts.MOMENT),
    Reason.BEHIND: (Concern.ROOM, Lasts.TURN),
    Reason.TOO_LARGE: (Concern.ROOM, Lasts.CHANGE),
    Reason.NODES_CLOSED: (Concern.ROOM, Lasts.CHANGE),
    Reason.WINDOW_TOO_SHORT: (Concern.JOB, Lasts.CHANGE),
    Reason.BACKING_OFF: (Concern.ROOM, Lasts.TIME),
    Reason.RELEASING: (Concern.RELEASE, Lasts.FREED),
    Reason.PAUSED: (Concern.DECISION, Lasts.TIME),
    Reason.SCHEDULE_OVER: (Concern.DECISION, Lasts.TURN),
    Reason.REJECTED: (Concern.DECISION, Lasts.CHANGE),
    Reason.STORING: (Concern.SERVICE, Lasts.MOMENT),
    Reason.SURPLUS: (Concern.PODS, Lasts.MOMENT),
    Reason.SURPLUS_FIRST: (Concern.PODS, Lasts.MOMENT),
    Reason.NODE_NOT_OFFERED: (Concern.ROOM, Lasts.TIME),
    Reason.BARRIER_TIMEOUT: (Concern.ATTEMPT, Lasts.MOMENT),
    Reason.REPAIR_FAILED: (Concern.ATTEMPT, Lasts.MOMENT),
    Reason.BARRIER_FULL: (Concern.ATTEMPT, Lasts.MOMENT),
    Reason.PLAN_CHANGED: (Concern.ATTEMPT, Lasts.MOMENT),
    Reason.ROOM_TAKEN: (Concern.ATTEMPT, Lasts.MOMENT),
    Reason.PREEMPTED: (Concern.PODS, Lasts.MOMENT),
    Reason.MEMBER_REFUSED: (Concern.PODS, Lasts.MOMENT),
    Reason.MEMBERS_UNPLACED: (Concern.PODS, Lasts.MOMENT),
    Reason.POD_GONE: (Concern.PODS, Lasts.MOMENT),
    Reason.BIND_FAILED: (Concern.ATTEMPT, Lasts.MOMENT),
    Reason.NOT_LEADING: (Concern.SERVICE, Lasts.MOMENT),
}

TEXTS: dict[Reason, str] = {
    Reason.NOT_SYNCED: "kohort: the ledger is still being rebuilt from the API server",
    Reason.UNKNOWN_JOB: "kohort: the pod's job is not known, or its kind is not one that kohort schedules",
    Reason.INVALID: "kohort: the job is malformed; kohort explain names the field",
    Reason.NOT_A_MEMBER: "kohort: the job has no slot with this pod's role and index",
    Reason.UNSUPPORTED: (
        "kohort: the pod template asks for a constraint that a gang plan cannot promise; kohort explain names it"
    ),
    Reason.SUSPENDED: "kohort: the job is suspended",
    Reason.FINISHED: "kohort: the job has finished",
    Reason.DELETING: "kohort: the job is being deleted",
    Reason.WAITING_FOR_PODS: "kohort: the gang waits for pods that its job's controller has not created yet",
    Reason.NO_ROOM: "kohort: the gang waits for room",
    Reason.ROOM_HELD: "kohort: pods of finished jobs hold the room that the gang needs; see cleanPodPolicy",
    Reason.ROOM_OF_OTHERS: "kohort: pods of other schedulers hold the room that the gang needs; see kohort explain",
    Reason.ROOM_BEING_FREED: "kohort: room for the gang is being freed",
    Reason.RESIZE_REFUSED: "kohort: the API server refuses the resize that was to free room for the gang",
    Reason.RESIZES_LIMITED: "kohort: room could be freed, but the cluster's limit of resizes in a minute is reached",
    Reason.STALLED: "kohort: workers that the job was given have not come",
    Reason.SHRINK_STALLED: "kohort: workers that were taken from the job have not gone",
    Reason.BEHIND: "kohort: free room is not given to the gang, because another job comes first",
    Reason.TOO_LARGE: "kohort: the gang would not fit on the empty cluster",
    Reason.NODES_CLOSED: "kohort: the gang fits only on nodes that are cordoned or not ready",
    Reason.WINDOW_TOO_SHORT: "kohort: the gang has more members than the barrier can collect in its time",
    Reason.BACKING_OFF: "kohort: the gang backs off after a failed attempt",
    Reason.PAUSED: "kohort: the policy gives the job no workers now; it goes on in a later time slot",
    Reason.SCHEDULE_OVER: "kohort: the job's schedule is over, and there was no room for what is left of its work",
    Reason.REJECTED: "kohort: the policy refuses the job as not worth its room; kohort explain shows the prices",
    Reason.STORING: "kohort: the decision about the job is being written on its object",
    Reason.RELEASING: "kohort: the gang is being released: its pods are removed before it queues again",
    Reason.SURPLUS: "kohort: the worker is beyond the number that the job was given",
    Reason.SURPLUS_FIRST: "kohort: the job has more pods than planned; binding waits until the surplus is deleted",
    Reason.NODE_NOT_OFFERED: "kohort: kube-scheduler's own filters removed the planned node; the gang is planned again",
    Reason.BARRIER_TIMEOUT: "kohort: the gang was not complete within the barrier window",
    Reason.REPAIR_FAILED: "kohort: lost members of the running gang were not bound again in time",
    Reason.BARRIER_FULL: "kohort: too many gangs are at the barrier",
    Reason.ROOM_TAKEN: "kohort: other pods have taken room of the gang's plan; the gang is planned again",
    Reason.PREEMPTED: "kohort: another scheduler has preempted members of the gang, and no other room is free",
    Reason.MEMBER_REFUSED: "kohort: kube-scheduler does not place a member of the gang; kohort explain has its message",
    Reason.MEMBERS_UNPLACED: "kohort: members of the running gang wait for room",
    Reason.PLAN_CHANGED: "kohort: the plan has changed since the filter call",
    Reason.POD_GONE: "kohort: the pod was deleted, or replaced by another of its name; nothing needs to be done",
    Reason.BIND_FAILED: "kohort: the API server refused the binding",
    Reason.NOT_LEADING: "kohort: this replica does not lead",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a job waits: the reason, its figures in words, and the uid of the job ahead if the job waits behind one."""

    reason: Reason
    detail: str = ""
    behind: str = ""
