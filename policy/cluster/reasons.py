"""The closed list of reasons, each with one constant text.

A text never holds a count, a name or a time. kube-scheduler writes the text into the pod's condition, and tries the pod
again at once after each change of the condition. (Texts that varied led to 17 filter calls a second for one pod.)
"""

from __future__ import annotations

import re
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
    def fact(self) -> str:
        """The sentence without its prefix ``kohort:`` and without its advice to call ``kohort explain``."""
        return FACTS[self]

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
    Reason.NOT_SYNCED: (
        "kohort: the service has not read all objects from the API server yet, so it decides nothing; wait until it has"
    ),
    Reason.UNKNOWN_JOB: (
        "kohort: the pod belongs to no job of a kind that kohort schedules, or the job is not known yet; see its "
        "ownerReferences"
    ),
    Reason.INVALID: (
        "kohort: a field of the job object is malformed; kohort explain names the field, its value and what is allowed"
    ),
    Reason.NOT_A_MEMBER: (
        "kohort: the job object asks for no replica with this pod's role and index; compare them with the job's "
        "replicas"
    ),
    Reason.UNSUPPORTED: (
        "kohort: the pod template has a constraint that cannot be planned for a whole gang; kohort explain names it"
    ),
    Reason.SUSPENDED: "kohort: the job is suspended; it queues when it is resumed",
    Reason.FINISHED: "kohort: the job has finished, so none of its pods is scheduled any more",
    Reason.DELETING: "kohort: the job is being deleted, so none of its pods is scheduled any more",
    Reason.WAITING_FOR_PODS: (
        "kohort: the gang waits for pods that its job's controller has not created yet; kohort explain says which"
    ),
    Reason.NO_ROOM: (
        "kohort: the gang waits for room: its minimum does not fit on the nodes now; kohort explain says what they lack"
    ),
    Reason.ROOM_HELD: (
        "kohort: pods of finished jobs hold the room that the gang needs; kohort explain names these pods"
    ),
    Reason.ROOM_OF_OTHERS: (
        "kohort: pods of other schedulers hold the room that the gang needs; kohort explain names these pods"
    ),
    Reason.ROOM_BEING_FREED: (
        "kohort: room for the gang is being freed, and the gang starts when other pods are gone; kohort explain "
        "names these pods"
    ),
    Reason.RESIZE_REFUSED: (
        "kohort: the API server refuses a resize that the gang's plan needs, of another job or of its own; kohort "
        "explain quotes the refusal"
    ),
    Reason.RESIZES_LIMITED: (
        "kohort: room could be freed, but the limit on resizes in a minute (resizes_per_minute) is reached; wait "
        "a minute"
    ),
    Reason.STALLED: (
        "kohort: workers that the policy has given the running job have not arrived in time; kohort explain says "
        "how many"
    ),
    Reason.SHRINK_STALLED: (
        "kohort: workers that were taken from the job are not gone in time; see what keeps their pods from ending"
    ),
    Reason.BEHIND: (
        "kohort: free room is not given to the gang, because another job comes first; kohort explain names that job"
    ),
    Reason.TOO_LARGE: (
        "kohort: the gang would not fit on the empty cluster; kohort explain names the resource, taint or label "
        "in the way"
    ),
    Reason.NODES_CLOSED: (
        "kohort: the gang fits only on nodes that take no new pods now; kohort explain names these nodes and says why"
    ),
    Reason.WINDOW_TOO_SHORT: (
        "kohort: the gang has more members than kube-scheduler can schedule while the barrier holds their binds; "
        "kohort explain has both numbers"
    ),
    Reason.BACKING_OFF: (
        "kohort: the last attempt to bind the gang failed, and the gang is tried again after a pause; kohort "
        "explain says why it failed"
    ),
    Reason.PAUSED: (
        "kohort: the policy gives the job no workers now, and it goes on in a later time slot; kohort explain says when"
    ),
    Reason.SCHEDULE_OVER: (
        "kohort: the time slots planned for the job are over, and its work is not done; the job goes on when "
        "the policy finds room again"
    ),
    Reason.REJECTED: (
        "kohort: the policy refuses the job, because it is not worth its room; kohort explain shows the figures"
    ),
    Reason.STORING: (
        "kohort: the decision about the job is being written to an annotation of its object; the gang is bound "
        "after that"
    ),
    Reason.RELEASING: "kohort: the gang is being released: its pods are removed before it queues again",
    Reason.SURPLUS: (
        "kohort: the pod is a worker beyond the number that the policy gave the job; it stays pending until the "
        "job grows"
    ),
    Reason.SURPLUS_FIRST: (
        "kohort: the job has more pods than planned; the gang is bound after the surplus pods are deleted"
    ),
    Reason.NODE_NOT_OFFERED: "kohort: kube-scheduler's own filters removed the planned node; the gang is planned again",
    Reason.BARRIER_TIMEOUT: (
        "kohort: kube-scheduler did not ask to bind all members of the gang within barrier.window_seconds; the "
        "gang is tried again"
    ),
    Reason.REPAIR_FAILED: "kohort: lost members of the running gang were not bound again in time",
    Reason.BARRIER_FULL: (
        "kohort: bind calls of too many gangs are held (barrier.gangs_at_once); kube-scheduler tries the pod "
        "again later"
    ),
    Reason.ROOM_TAKEN: "kohort: other pods have taken room that was planned for the gang; the gang is planned again",
    Reason.PREEMPTED: (
        "kohort: another scheduler has preempted members of the gang, and no other room is free; kohort explain "
        "names these members"
    ),
    Reason.MEMBER_REFUSED: (
        "kohort: kube-scheduler itself does not place a member of the gang; kohort explain has its message"
    ),
    Reason.MEMBERS_UNPLACED: (
        "kohort: members of the running gang wait for room; kohort explain says which resources they lack"
    ),
    Reason.PLAN_CHANGED: (
        "kohort: the gang's plan has changed since kube-scheduler chose the node; kube-scheduler tries the pod again"
    ),
    Reason.POD_GONE: "kohort: the pod was deleted, or replaced by another of its name; nothing needs to be done",
    Reason.BIND_FAILED: "kohort: the API server refused the binding",
    Reason.NOT_LEADING: (
        "kohort: this replica of Kohort does not lead, so it decides nothing; only the leading replica answers"
    ),
}


def without_advice(said: str) -> str:
    """Return the text without its advice to call ``kohort explain``, for an answer that has what explain would say."""
    return re.sub(r"; kohort explain [^;]*$", "", said)


FACTS: dict[Reason, str] = {reason: without_advice(text).removeprefix("kohort: ") for reason, text in TEXTS.items()}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a job waits: the reason, its figures in words, and the uid of the job ahead if the job waits behind one."""

    reason: Reason
    detail: str = ""
    behind: str = ""
