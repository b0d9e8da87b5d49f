"""The room that OASiS's plans need in later time slots, for a rebalancer that moves jobs (``oasis+specon``).

The paper moves no job. Here the plan of a job that a rebalancer moves is changed to name the new node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from policy.cluster.actions import Action, Remember
from policy.cluster.frozen import replace
from policy.cluster.job import PS, WORKER
from policy.cluster.node import Node
from policy.cluster.resources import NOTHING, Resources
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Promised
from policy.systems.oasis.execute import fits
from policy.systems.oasis.schedule import MEMORY, Book, Shift, sizes
from policy.systems.oasis.workload import POOL


class PlansAhead(Promised):
    """The plans of all jobs, which are changed with each move that the rebalancer makes.

    ``book``: OASiS's memory before the moves, which has the plans. ``slot``: the present time slot. ``nodes``: pairs of
    a usable node and the resources that jobs may take of it.
    """

    def __init__(self, snapshot: Snapshot, book: Book, slot: int, nodes: Iterable[tuple[Node, Resources]]) -> None:
        self._snapshot, self._book, self._slot = snapshot, book, slot
        self._nodes = {node.name: (node, room) for node, room in nodes}
        self._plans = dict(book.plans)

    def leaves(self, job_uid: str, node: str) -> bool:
        """Tell whether the job may move to that node, because it has room there in all time slots left in its plan."""
        if job_uid not in self._plans:
            return True
        if node not in self._nodes:
            return False
        here, (host, room) = self._here(job_uid), self._nodes[node]
        for shift in self._to_come(job_uid):
            roles = {role for role, name, _ in shift.layout if name in here}
            asked = self._taken(job_uid, shift, here)
            others = sum((self._at(uid, shift.slot, node) for uid in self._plans), start=NOTHING)
            if not (all(_hosts(host, role) for role in roles) and fits(host, asked, room - others)):
                return False
        return True

    def moved(self, job_uid: str, node: str) -> None:
        """Change the job's plan: it names that node in place of the nodes on which the job runs now."""
        if job_uid in self._plans:
            here, plan = self._here(job_uid), self._plans[job_uid]
            for shift in self._to_come(job_uid):
                plan = plan.put(_moved(shift, here, node))
            self._plans[job_uid] = plan

    def actions(self) -> tuple[Action, ...]:
        """Return the action that remembers the changed plans; none if no plan has changed."""
        changed = self._plans != self._book.plans
        return (Remember(MEMORY, replace(self._book, plans=self._plans)),) if changed else ()

    def _here(self, job_uid: str) -> set[str]:
        return set(self._snapshot.gang(job_uid).nodes.values())

    def _to_come(self, job_uid: str) -> list[Shift]:
        return [shift for shift in self._plans[job_uid].shifts if shift.slot >= self._slot]

    def _taken(self, job_uid: str, shift: Shift, names: set[str]) -> Resources:
        each = sizes(self._plans[job_uid])
        parts = (each[role].times(count) for role, name, count in shift.layout if name in names)
        return sum(parts, start=NOTHING)

    def _at(self, job_uid: str, slot: int, node: str) -> Resources:
        shift = self._plans[job_uid].at(slot)
        return self._taken(job_uid, shift, {node}) if shift else NOTHING


def _hosts(node: Node, role: str) -> bool:
    return node.labels.get(POOL, "") in ("", PS if role == PS else WORKER)


def _moved(shift: Shift, here: set[str], node: str) -> Shift:
    counts = Counter[tuple[str, str]]()
    for role, name, count in shift.layout:
        counts[role, node if name in here else name] += count
    return Shift(shift.slot, tuple((role, name, count) for (role, name), count in sorted(counts.items())))
