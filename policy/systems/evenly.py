"""SpeCon's initial placement (section VI-A): first come, first served, each job on the next node in turn.

The paper says "evenly distributed based on the number of containers": container 1 goes to worker 1, container 2 to
worker 2, and so on, starting over after the last worker, whichever containers have ended meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain

from policy.cluster.actions import Action, Admit, Decision, Remember
from policy.cluster.job import Slot
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import Snapshot
from policy.placement.ask import Ask
from policy.placement.gang import ask_of, charge, place, takes_all
from policy.placement.room import Room
from policy.systems.queue import asked_workers, queue

# The policy's memory holds under this key how many jobs have been placed so far; the next node in turn follows.
TURN = "evenly/turn"


def admit_evenly(
    snapshot: Snapshot, now: float, scores: Callable[[], dict[str, float]] | None = None, each: float = 0.0
) -> Decision:
    """Admit whole gangs in order of arrival; no job passes the first that finds no room.

    scores: returns a score for each node; the node with the least score is taken, and its turn decides only between
    equal scores. each: what each member that is placed adds to its node's score.
    """
    found = queue(snapshot, now)
    if not found.ready:
        return Decision(verdicts=found.barred)
    room, turn, scored = Room.of(snapshot), _turn(snapshot), scores() if scores is not None else {}
    actions, verdicts = list[Action](), dict(found.barred)
    for index, job in enumerate(found.ready):
        ask = ask_of(snapshot, job, workers := asked_workers(job))
        nodes = _at_turn(room, ask, turn, scored)
        if nodes is None:
            verdicts[job.uid] = ask.no_room
            behind = Verdict(Reason.BEHIND, f"behind {job.key}", job.uid)
            verdicts.update((other.uid, behind) for other in found.ready[index + 1 :])
            break
        charge(room, ask, nodes)
        if scores is not None:
            for node in nodes.values():
                scored[node] += each
        actions.append(Admit(job.uid, workers, nodes))
        turn += 1
    if turn != _turn(snapshot):
        actions.append(Remember(TURN, turn))
    return Decision(tuple(actions), verdicts)


def _turn(snapshot: Snapshot) -> int:
    turn = snapshot.memory.get(TURN)
    return turn if isinstance(turn, int) else 0


def _at_turn(room: Room, ask: Ask, turn: int, scored: Mapping[str, float]) -> dict[Slot, str] | None:
    """Return a node for each member, or None if the gang has no room.

    All members go on the first node in turn that takes the whole gang; if none does, they go on as few nodes as
    possible. With scores (``scored``, by node) nodes of lower score come first, and the turn decides only between equal
    scores.
    """
    names = list(room)
    whole = set(room.fitting(ask.whole))
    begin = turn % len(names) if names else 0
    in_turn = chain(names[begin:], names[:begin])
    for name in sorted(in_turn, key=scored.__getitem__) if scored else in_turn:
        if name in whole and takes_all(room.nodes[name], ask):
            return {slot: name for slot, _, _ in ask.members()}
    return place(room, ask)
