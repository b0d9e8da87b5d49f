"""A plan is given up: the gang goes back to the queue, or its bound members are released first."""

from __future__ import annotations

from policy.cluster.actions import Effect, Released
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import Gang, State
from policy.cluster.lifecycle import Awaits, Move
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import Rules
from policy.transitions.deadlines.patience import until
from policy.transitions.gangs import any_bound, move, refuse_held, rules_of


def give_up(draft: Draft, gang: Gang, now: float, reason: Reason, *, back_off: bool = True) -> list[Effect]:
    """Drop the plan: the gang queues again where nothing is bound; else its bound members are released first.

    Members that are terminating already are not released: on a node that is down that may take hours.
    back_off: whether the gang may not be admitted again for a while, which doubles with each failed plan.
    """
    effects: list[Effect] = [*refuse_held(gang, reason), Released(gang.job_uid, gang.plan, reason)]
    if back_off:
        attempts = gang.tries.attempts + 1
        tries = replace(gang.tries, attempts=attempts, not_before=now + _back_off(rules_of(draft), attempts))
        gang = replace(gang, tries=tries)
    if any_bound(draft, gang.job_uid) or gang.in_flight or gang.state is State.RUNNING:
        move(draft, cleared(gang), Move.RELEASE, deadline=until(draft, Awaits.RELEASE, now))
    else:
        move(draft, cleared(gang), Move.GIVE_UP)
    return effects


def cleared(gang: Gang) -> Gang:
    """Return the gang without its plan; bindings in flight, failures and the back-off stay."""
    tries = replace(gang.tries, retried=False)
    return Gang(gang.job_uid, gang.state, in_flight=gang.in_flight, tries=tries, refused=gang.refused)


def _back_off(rules: Rules, attempts: int) -> float:
    return min(rules.backoff_max_seconds, rules.backoff_initial_seconds * 2.0 ** min(attempts - 1, 16))
