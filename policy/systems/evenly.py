"""First come, first served, each job on the next node of a round: SpeCon's initial placement (section VI-A).

"Evenly distributed based on the number of containers": container 1 on worker 1, 2 on 2, and so on around, whatever
has ended meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain

from policy.cluster.actions import Action, Admit, Decision, Remember
from policy.cluster.model import Slot
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import Snapshot
from policy.placement.gang import Ask, ask_of, charge, place, takes_all
from policy.placement.room import Room
from policy.systems.queue import asked_workers, queue

TURN = "evenly/turn"  # how many jobs have been placed


def admit_evenly(
    snapshot: Snapshot, now: float, scores: Callable[[], dict[str, float]] | None = None, each: float = 0.0
) -> Decision:
    """Admit whole gangs in order of arrival; none passes the first that finds no room.

    scores: of the nodes; the node with the least goes before the one whose turn it is, and each member that is placed
    adds ``each`` to its node's score.
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
    """Return all members on the node whose turn it is, else on the next that takes them all, else on few nodes."""
    names = list(room)
    whole = set(room.fitting(ask.whole))
    begin = turn % len(names) if names else 0
    in_turn = chain(names[begin:], names[:begin])
    for name in sorted(in_turn, key=scored.__getitem__) if scored else in_turn:
        if name in whole and takes_all(room.nodes[name], ask):
            return {slot: name for slot, _, _ in ask.members()}
    return place(room, ask)
