"""Room of a plan that somebody else has taken: another scheduler sees no plans, and a node may shrink.

kube-scheduler would find out at the members' next attempt, and where no other node is left it asks us no more. So the
fact itself ends the plan, and the gang is planned anew in the same step, or waits.
"""

from __future__ import annotations

from collections.abc import Iterator

from policy.cluster.actions import Effect
from policy.cluster.draft import Draft
from policy.cluster.gang import Gang, State
from policy.cluster.model import Job, Node
from policy.cluster.reasons import Reason
from policy.cluster.resources import NOTHING, Resources
from policy.cluster.snapshot import Charge
from policy.transitions.gangs import any_bound, give_up, job_of


def give_up_stolen(draft: Draft, now: float) -> list[Effect]:
    """Give up plans on nodes that a fact of this step has filled beyond what they have, the latest job's first."""
    effects: list[Effect] = []
    for name in sorted(draft.filled):
        draft.settle()
        gangs = sorted(_planned_on(draft, name), key=lambda gang: _arrival(draft, gang), reverse=True)
        while gangs and _is_overfull(draft, name):
            effects += give_up(draft, gangs.pop(0), now, Reason.ROOM_TAKEN, back_off=False)
            draft.settle()
    draft.filled.clear()
    return effects


def _planned_on(draft: Draft, name: str) -> Iterator[Gang]:
    """Gangs that count on the node now, of which nothing is bound yet."""
    node: Node | None = draft.read("nodes").get(name)
    if node is None or _charged(draft, name).fits(node.allocatable):
        return
    for uid, gang in draft.read("gangs").items():
        planned = gang.state is State.PLANNED and gang.whole and not gang.waits_for and name in gang.nodes.values()
        if planned and not any_bound(draft, uid):
            yield gang


def _charged(draft: Draft, name: str) -> Resources:
    charged: Resources = draft.read("charged").get(name, NOTHING)
    return charged


def _arrival(draft: Draft, gang: Gang) -> tuple[float, str]:
    job: Job | None = job_of(draft, gang.job_uid)
    return (job.arrival if job is not None else 0.0), gang.job_uid


def _is_overfull(draft: Draft, name: str) -> bool:
    """Whether what is really there and the plans that count on it now exceed the node."""
    charges: dict[str, Charge] = draft.read("charges")
    waiting = (uid for uid, gang in draft.read("gangs").items() if gang.waits_for)
    later = [taken for uid in waiting for node, taken in charges.get(uid, {}).values() if node == name]
    now = _charged(draft, name) - sum(later, NOTHING)
    return not now.fits(draft.read("nodes")[name].allocatable)
