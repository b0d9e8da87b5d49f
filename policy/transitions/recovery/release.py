"""Giving up a plan: the gang goes back to the queue, at once or after its bound members are released."""

from __future__ import annotations

from policy.cluster.actions import Effect, Released
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import Gang, State
from policy.cluster.lifecycle import Awaits, Move
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import Rules
from policy.transitions.deadlines.patience import until
from policy.transitions.gangs import any_bound, move, refuse_held


def give_up(draft: Draft, gang: Gang, now: float, reason: Reason, *, back_off: bool = True) -> list[Effect]:
    """Drop the gang's plan, and return refusals for its held binds and a report of the reason.

    If members are bound, they are released before the gang queues again. Members that are already terminating are not
    waited for, because that may take hours on a node that is down. back_off: the gang may be admitted again only after
    a back-off, which doubles with each failed plan.
    """
    effects: list[Effect] = [*refuse_held(gang, reason), Released(gang.job_uid, gang.plan, reason)]
    if back_off:
        attempts = gang.tries.attempts + 1
        not_before = now + _back_off(draft.base.rules, attempts)
        tries = replace(gang.tries, attempts=attempts, not_before=not_before, why=reason)
        gang = replace(gang, tries=tries)
    if any_bound(draft, gang.job_uid) or gang.in_flight or gang.state is State.RUNNING:
        move(draft, cleared(gang), Move.RELEASE, deadline=until(draft, Awaits.RELEASE, now))
    else:
        move(draft, cleared(gang), Move.GIVE_UP)
    return effects


def cleared(gang: Gang) -> Gang:
    """Return the gang in the same state without its plan; it keeps its bindings in flight and its back-off."""
    tries = replace(gang.tries, retried=False)
    return Gang(gang.job_uid, gang.state, in_flight=gang.in_flight, tries=tries, refused=gang.refused)


def _back_off(rules: Rules, attempts: int) -> float:
    return min(rules.backoff_max_seconds, rules.backoff_initial_seconds * 2.0 ** min(attempts - 1, 16))
