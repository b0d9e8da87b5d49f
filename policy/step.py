"""The only function that changes state: the live service, the simulator, what-if and replay all call ``step``."""

from __future__ import annotations

from collections.abc import Iterable

from policy.cluster.actions import Effect
from policy.cluster.draft import Draft
from policy.cluster.events import Event
from policy.cluster.snapshot import Snapshot
from policy.keep import keep, recall
from policy.systems.base import Policy
from policy.systems.quotas import decide
from policy.transitions.barrier import apply_bind_event, in_order
from policy.transitions.carry import carry_out
from policy.transitions.deadlines.expiry import expire
from policy.transitions.facts import apply_fact
from policy.transitions.failing import judge_nodes, recall_failures
from policy.transitions.recovery.repair import repair, report_preempted
from policy.transitions.recovery.taken import give_up_taken
from policy.transitions.refusedwrites import heed_refused
from policy.transitions.settle import settle
from policy.transitions.shortage import note_short
from policy.transitions.shown import report_shown


def step(
    snapshot: Snapshot, events: Iterable[Event], policy: Policy, now: float
) -> tuple[Snapshot, tuple[Effect, ...]]:
    """Return the next snapshot and the effects of a batch of events.

    A step applies the events, lets deadlines run out, brings gangs into line with their pods, repairs gangs, asks the
    policy, and carries its decision out. ``now`` is in seconds since the epoch. The effects are decisions and outcomes
    (for the journal) and calls to make (Bind, RefuseBind); the outcome of a call comes back as an event. Nothing is
    decided before every watch has delivered its first list, nor by a replica that does not lead.
    """
    draft = Draft(snapshot)
    effects: list[Effect] = []
    for event in in_order(events):
        effects += apply_fact(draft, event, now)
        effects += apply_bind_event(draft, event, now)
    effects += expire(draft, now, gives_back=policy.base.grows)
    deciding = draft.now.synced and draft.now.leading
    if deciding and not (snapshot.synced and snapshot.leading):
        recall(draft, policy)
        recall_failures(draft, now)
    if deciding:
        effects += judge_nodes(draft, now)
        effects += give_up_taken(draft, now)
        effects += heed_refused(draft, now, gives_back=policy.base.grows)
    effects += settle(draft, now)
    if deciding:
        # The first call left out plans that wait for room. Settle may have ended such a wait, so that the room of the
        # plan must be checked now.
        effects += give_up_taken(draft, now)
        effects += report_preempted(draft)
        effects += repair(draft, now, gives_back=policy.base.grows)
        effects += report_shown(draft)
        draft.settle()
        note_short(draft, now)
        effects += carry_out(draft, keep(draft, policy, decide(draft.view(), policy, now)), now)
    return draft.freeze(), tuple(effects)
