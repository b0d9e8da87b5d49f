"""Makes the rows of the table of nodes: their room, the failures of members on them, and who runs there."""

from __future__ import annotations

from collections.abc import Iterable

from extender.cli.console import offered
from extender.present.views.cluster import NodeMemberView, NodeView
from policy.cluster.words import counted, in_time


def node_row(node: NodeView, *, wide: bool) -> tuple[str, ...]:
    """Return the row of a node; ``wide`` adds the names of the pods."""
    row = (
        node.name,
        "ready" if node.ready and not node.unschedulable else "cordoned" if node.ready else "not ready",
        offered(node.allocatable, node.allocatable),
        offered(node.free, node.allocatable),
        str(node.other_pods),
        _failures(node),
        ", ".join(by_job((_guest(guest), guest.role) for guest in node.members)) or "-",
    )
    pods = ", ".join(guest.pod or f"({guest.role}-{guest.index})" for guest in node.members)
    return (*row, pods or "-") if wide else row


def _failures(node: NodeView) -> str:
    """Return of how many jobs members have failed on the node, and until when it is avoided: ``2 jobs, avoided until
    2026-11-28 12:00:00 UTC``.
    """
    if not node.failures:
        return "-"
    told = counted(node.failures, "job")
    if node.avoided_until is None:
        return told
    return f"{told}, {'avoided' if node.barred else 'used last'} until {in_time(node.avoided_until)}"


def _guest(guest: NodeMemberView) -> str:
    return f"{guest.job} (finished)" if guest.finished else guest.job


def by_job(members: Iterable[tuple[str, str]]) -> list[str]:
    """Count the members, given as (job, role), and return a text for each job: ``team/job 1 ps+3 workers``."""
    found: dict[str, dict[str, int]] = {}
    for job, role in members:
        roles = found.setdefault(job, {})
        roles[role] = roles.get(role, 0) + 1
    return [f"{job} " + "+".join(counted(count, role) for role, count in roles.items()) for job, roles in found.items()]
