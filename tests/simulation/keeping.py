"""Write a seed as a kept scenario (a file of nodes, jobs and faults), reduced to what its failure needs.

A scenario also has random details, such as latencies, which depend on a text called the salt. A seed is kept only if
the defect is caught under every salt of SHOWN_UNDER, and nothing is violated without the defect under the salts of
CLEAN_UNDER.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Final, TypeVar

from tests.simulation.kept import FOLDER, KeptScenario, kept
from tests.simulation.mutants import switched_on
from tests.simulation.run import Simulation, play
from tests.simulation.scenario import drawn

# A kept scenario has to fail under each of these salts.
SHOWN_UNDER: Final = ("", "one", "two", "three", "four", "five")
# Without its defect, the scenario must not fail under these salts; these runs are not stopped early.
CLEAN_UNDER: Final = SHOWN_UNDER[:3]
# The scenario includes this many seconds of storm after the violation, which may come later under another salt.
GRACE: Final = 10.0
LATER: Final = 2.0  # A kept scenario may fail up to this many times as late as the seed did.
# The scenario is reduced in at most this many rounds; each uses the salts under which the last result did not fail.
MOST_ROUNDS: Final = 4
MOST_PLAYS: Final = 60  # At most this many reduced scenarios are run.
T = TypeVar("T")


class NotKeptError(Exception):
    """The seed cannot be written as a kept scenario; the message says why."""


def keep(
    seed: int, name: str, defect: str, say: Callable[[str], None] = print, most_plays: int = MOST_PLAYS
) -> KeptScenario:
    """Run the seed, make a scenario of it and write it. Raises NotKeptError if the scenario would not show the
    defect.
    """
    for whole in (False, True):
        found, longest = taken(seed, defect, whole)
        say(f"seed {seed}: {found.caught}; {len(found.jobs)} jobs, {len(found.faults)} faults")
        smaller = smallest_that_fails(found, longest, most_plays)
        if smaller is not None:
            say(f"without what is not needed: {len(smaller.jobs)} jobs, {len(smaller.faults)} faults")
            check_clean(smaller)
            write(name, smaller)
            return smaller
    raise NotKeptError("what is random decides whether it fails: there is a salt under which it does not")


def smallest_that_fails(found: KeptScenario, longest: float, most_plays: int) -> KeptScenario | None:
    """Return the scenario reduced so that it fails under every salt, or None if it does not fail itself."""
    salts: tuple[str, ...] = SHOWN_UNDER[:2]
    for _ in range(MOST_ROUNDS):
        if not all(fails(found, salt, longest) for salt in salts):
            return None
        smaller = reduced(found, salts, longest, most_plays)
        missed = [salt for salt in SHOWN_UNDER if not fails(smaller, salt, longest)]
        if not missed:
            return smaller
        salts = (*missed, *(salt for salt in salts if salt not in missed))
    return None


def write(name: str, scenario: KeptScenario) -> None:
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(scenario.text())


def taken(seed: int, defect: str, whole: bool) -> tuple[KeptScenario, float]:
    """Run the seed; return it as a scenario, and the seconds within which the scenario has to fail.

    The scenario ends with the first violation, or has the whole storm if ``whole``.
    """
    made: list[Simulation] = []

    def make() -> Simulation:
        made.append(Simulation(drawn(seed), impatient=not whole))
        return made[0]

    with switched_on(defect) if defect else nullcontext():
        report = play(make)
    if not report.violations:
        raise NotKeptError(f"seed {seed} violates nothing {f'with {defect}' if defect else ''}".rstrip())
    storm = report.seconds - report.calm + GRACE
    return kept(made[0], defect, report.violations[0], storm), LATER * (report.seconds + GRACE)


def check_clean(scenario: KeptScenario) -> None:
    """Raise NotKeptError if the scenario violates a rule without its defect, too."""
    for salt in CLEAN_UNDER if scenario.defect else ():
        if violations := scenario.play(salt, defect="").violations:
            raise NotKeptError(f"it fails without {scenario.defect} as well, under the salt {salt!r}: {violations[0]}")


def fails(scenario: KeptScenario, salt: str, longest: float = math.inf) -> bool:
    """Tell whether the scenario violates any rule within ``longest`` seconds of virtual time, under that salt."""
    return bool(scenario.play(salt, longest=longest).violations)


def reduced(scenario: KeptScenario, salts: Sequence[str], longest: float, most_plays: int = MOST_PLAYS) -> KeptScenario:
    """Return the scenario with as few faults and jobs as ``most_plays`` runs can find.

    It still fails within ``longest`` seconds under each of ``salts``.
    """
    plays = Plays(most_plays)
    # The entries are sorted, so that faults of the same kind are removed together.
    faults = sorted(scenario.faults, key=lambda fault: fault.kind)

    def without(**changes: object) -> KeptScenario:
        return scenario.model_copy(update=changes)

    def still_fails(smaller: KeptScenario) -> bool:
        return plays.left() and all(fails(smaller, salt, longest) for salt in salts)

    early = without(jobs=tuple(job for job in scenario.jobs if job.arrival < scenario.storm))
    scenario = early if still_fails(early) else scenario
    needed = smallest(faults, lambda some: still_fails(without(faults=tuple(some))))
    scenario = without(faults=tuple(fault for fault in scenario.faults if fault in needed))
    jobs = smallest(scenario.jobs, lambda some: still_fails(without(jobs=tuple(some))))
    return without(jobs=tuple(jobs))


class Plays:
    """Counts the runs of reduced scenarios, up to a limit."""

    def __init__(self, most: int) -> None:
        self._left = most

    def left(self) -> bool:
        """Tell whether one more run is allowed, and count it."""
        self._left -= 1
        return self._left >= 0


def smallest(parts: Sequence[T], holds: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Return a part of ``parts`` for which ``holds`` is true, and false as soon as any of its entries is left out.

    Halves, quarters and so on of the entries are left out by turns.
    """
    if holds([]):
        return []
    size = max(1, len(parts) // 2)
    while parts:
        at, shrunk = 0, False
        while at < len(parts):
            fewer = [*parts[:at], *parts[at + size :]]
            if holds(fewer):
                parts, shrunk = fewer, True
            else:
                at += size
        if size == 1 and not shrunk:
            break
        size = max(1, size // 2)
    return parts
