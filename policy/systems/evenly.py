"""First come, first served, each job on the next node of a round: SpeCon's initial placement (section VI-A).

"Evenly distributed based on the number of containers": container 1 on worker 1, 2 on 2, and so on around, whatever
has ended meanwhile.
"""

from __future__ import annotations

from policy.cluster.actions import Action, Admit, Decision, Remember
from policy.cluster.model import Slot
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import Snapshot
from policy.placement.gang import Ask, ask_of, charge, place, takes_all
from policy.placement.room import Room
from policy.systems.queue import asked_workers, queue

TURN = "evenly/turn"  # how many jobs have been placed


def admit_evenly(snapshot: Snapshot, now: float) -> Decision:
    """Whole gangs in order of arrival; nobody passes the first that finds no room."""
    found = queue(snapshot, now)
    if not found.ready:
        return Decision(verdicts=found.barred)
    room, turn = Room.of(snapshot), _turn(snapshot)
    actions, verdicts = list[Action](), dict(found.barred)
    for index, job in enumerate(found.ready):
        ask = ask_of(snapshot, job, workers := asked_workers(job))
        nodes = _at_turn(room, ask, turn)
        if nodes is None:
            verdicts[job.uid] = ask.no_room
            behind = Verdict(Reason.BEHIND, f"behind {job.key}", job.uid)
            verdicts.update((other.uid, behind) for other in found.ready[index + 1 :])
            break
        charge(room, ask, nodes)
        actions.append(Admit(job.uid, workers, nodes))
        turn += 1
    if turn != _turn(snapshot):
        actions.append(Remember(TURN, turn))
    return Decision(tuple(actions), verdicts)


def _turn(snapshot: Snapshot) -> int:
    turn = snapshot.memory.get(TURN)
    return turn if isinstance(turn, int) else 0


def _at_turn(room: Room, ask: Ask, turn: int) -> dict[Slot, str] | None:
    """All members on the node whose turn it is, else on the next that takes them all, else on few nodes."""
    names = list(room)
    whole = set(room.fitting(ask.whole))
    for step in range(len(names)):
        name = names[(turn + step) % len(names)]
        if name in whole and takes_all(room.nodes[name], ask):
            return {slot: name for slot, _, _ in ask.members()}
    return place(room, ask)
