"""What a user can do about each reason for which a pod or job waits."""

from __future__ import annotations

from policy.cluster.reasons import Reason

MEND_REFUSED = "find out what refuses writes of pods/binding: an admission policy, a webhook, a quota, a missing right"
MENDS: dict[Reason, str] = {
    Reason.UNKNOWN_JOB: (
        "see the pod's ownerReferences: docs/jobkinds.md must list the owner's kind, and its CRD must be installed"
    ),
    Reason.INVALID: (
        "correct the malformed field: the job then queues at once, and until then its running pods go on; "
        "kohort explain names the field"
    ),
    Reason.NOT_A_MEMBER: "compare the pod's role and index with the number of replicas of that role in the job",
    Reason.UNSUPPORTED: "remove the constraint from the pod template, or use another schedulerName for this job",
    Reason.SUSPENDED: "run kohort resume NAMESPACE/NAME; kohort explain names the field that suspends the job",
    Reason.WAITING_FOR_PODS: (
        "wait; if the pods do not come, a ResourceQuota or the operator holds them back: see the job's events"
    ),
    Reason.NO_ROOM: "wait for a job to end, ask for less, or add nodes; kohort explain says what would admit it now",
    Reason.ROOM_HELD: "set spec.runPolicy.cleanPodPolicy: Running on the finished jobs, or delete them",
    Reason.ROOM_OF_OTHERS: "end or move pods of other schedulers, add nodes, or keep nodes for Kohort by a taint",
    Reason.ROOM_BEING_FREED: "wait: pods of other jobs are stopping for this gang; kohort explain names them",
    Reason.RESIZE_REFUSED: "find out what refuses the resize: an admission policy, a webhook, or RBAC",
    Reason.RESIZES_LIMITED: (
        "wait: within a minute jobs may be resized again; the limit is the setting resizes_per_minute"
    ),
    Reason.STALLED: "see the job's events: a ResourceQuota or the operator may hold back its pods",
    Reason.SHRINK_STALLED: (
        "find out what keeps the pods: the operator, a finalizer, a long grace period, a node that is down"
    ),
    Reason.BEHIND: (
        "wait for the jobs ahead, or under kod2 or drs raise kohort.dev/utility; kohort explain names these jobs"
    ),
    Reason.TOO_LARGE: (
        "ask for fewer or smaller members, add nodes, or change the taint or label in the way; kohort explain names it"
    ),
    Reason.NODES_CLOSED: (
        "uncordon these nodes, forgive them, or wait until they are ready and without the taint; kohort explain names "
        "them"
    ),
    Reason.WINDOW_TOO_SHORT: (
        "ask for fewer members, or raise barrier.http_timeout_seconds (settings) and httpTimeout (kube-scheduler) "
        "alike: kohort check-config compares them"
    ),
    Reason.BACKING_OFF: "wait: Kohort tries again by itself; kohort explain has the last attempts and why they failed",
    Reason.REJECTED: "change the job and submit it again; kohort explain names a change that is enough",
    Reason.NODE_NOT_OFFERED: (
        "see the pod's PodScheduled condition: it says which plugin of kube-scheduler refuses the planned nodes"
    ),
    Reason.BARRIER_TIMEOUT: "wait: Kohort tries again; if that happens often, see docs/operations/sizing.md",
    Reason.BARRIER_FULL: (
        "wait: kube-scheduler tries the pod again; if that happens often, raise barrier.gangs_at_once or "
        "server.connections"
    ),
    Reason.POD_GONE: "nothing: the job's controller creates a new pod if the job needs one",
    Reason.BIND_FAILED: MEND_REFUSED,
    Reason.PREEMPTED: "wait for room, or give the job's pods a PriorityClass as high as that of the preempting pods",
    Reason.MEMBER_REFUSED: (
        "correct what kube-scheduler's message names: for a volume, kubectl describe pvc says more; a scheduling gate "
        "is removed by the controller that set it"
    ),
    Reason.MEMBERS_UNPLACED: "wait for room, lower the job's number of workers, or add nodes",
    Reason.NOT_SYNCED: "wait; /readyz names the watches that have not delivered their list yet",
    Reason.NOT_LEADING: "ask the leading replica: the command kohort finds it by its Lease if --server is not given",
}
