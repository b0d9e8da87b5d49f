"""Makes views of a snapshot, a plan and the journal: pure functions, no I/O; ``now`` is an argument."""

from extender.present.cluster import nodes_view, plans_view
from extender.present.decisions import decision_view, decisions_view
from extender.present.explain import deeper, explain_view, held_views, unblock_views
from extender.present.jobs import job_detail, job_view, jobs_view, queue_view, waits
from extender.present.orders import desired_view
from extender.present.whatif import what_if_view

__all__ = [
    "decision_view",
    "decisions_view",
    "deeper",
    "desired_view",
    "explain_view",
    "held_views",
    "job_detail",
    "job_view",
    "jobs_view",
    "nodes_view",
    "plans_view",
    "queue_view",
    "unblock_views",
    "waits",
    "what_if_view",
]
