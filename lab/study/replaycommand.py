"""Carry out ``kohort replay``: print the outcome of a replay."""

from __future__ import annotations

from pathlib import Path

from lab.study import files, replay
from lab.study.cases import policy_of
from lab.study.consoles import out
from lab.study.specs import spec


def replay_journal(path: Path, most: int, target: files.ReportTarget) -> bool:
    """Replay the journal and print the outcome; return whether every decision is the recorded one. Raises StudyError.

    At most ``most`` decisions that differ are printed.
    """
    found = replay.replay_journal(path)
    target.write(replay.as_json(found))
    if not target.people:
        return not found.departures
    to = out()
    for departure in found.departures[:most]:
        to.print(f"line {departure.line}, at {departure.at:.3f}: recorded {departure.recorded}, now {departure.now}")
    if found.stopped:
        to.print(f"the recorded process ended with an error, and so did the replay: {found.stopped}")
    verdict = (
        f"{len(found.departures)} steps differ" if found.departures else "all decisions are as recorded, byte for byte"
    )
    to.print(f"{found.steps} steps, {found.decisions} decisions: {verdict}")
    return not found.departures


def ask_other_policy(path: Path, policy: str, most: int, target: files.ReportTarget) -> None:
    """Ask another policy at each recorded step; print at most ``most`` steps at which it differs. Raises StudyError."""
    found = replay.ask_other_policy(path, policy_of(spec(policy, "--policy"), 0))
    steps = [replay.as_json(one) for one in found.differences]
    target.write({
        "decided": found.decided, "counts": found.counts, "steps": steps, "departures": found.departures,
        "stopped": found.stopped,
    })  # fmt: skip
    if not target.people:
        return
    to = out()
    for one in found.differences[:most]:
        to.print(f"line {one.line}, at {one.at:.3f}")
        for sign, actions in (("-", one.recorded), ("+", one.other)):
            for action in actions or ("nothing",):
                to.print(f"  {sign} {action}")
    if len(found.differences) > most:
        to.print(f"and {len(found.differences) - most} more; see --most")
    if found.stopped:
        to.print(f"the recorded process ended with an error, and so does the comparison: {found.stopped}")
    if found.departures:
        to.print(
            f"this version decides differently from the record at {found.departures} steps, and lines with - are its "
            f"decisions: kohort replay {path} shows these steps"
        )
    to.print(f"asked {found.decided} times: {policy} differs {len(found.differences)} times")
    for whose, verbs in found.counts.items():
        to.print(f"{whose}: {', '.join(f'{verb} {count}' for verb, count in sorted(verbs.items())) or 'nothing'}")
