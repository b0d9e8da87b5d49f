"""Read the data of the Pollux artifact (OSDI 2021) from a folder; docs/simulator.md says which files it must have."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from lab.sim.pollux.artifact import PolluxArtifact
from lab.sim.pollux.profiles import Profile, profile
from lab.sim.traces import TraceError
from lab.sim.traces.reading import Table
from lab.study.donerows import hash_of
from lab.study.rowfiles import lines, parsed, table, text_of
from lab.study.studyerrors import StudyError

VARIABLE = "KOHORT_POLLUX_DATA"  # This environment variable names the folder where no option does.
POLICIES = ("tiresias", "optimus", "pollux")
LOAD = "1.0"
SEE = "see the world of the Pollux artifact in docs/simulator.md"


@cache
def artifact(folder: str) -> PolluxArtifact:
    """Return the data in that folder. Raises StudyError if a file is missing or faulty."""
    root = Path(folder)
    tables = {number: table(path) for number, path in _numbered(root / "workloads", "workload-*.csv").items()}
    return PolluxArtifact(_profiles(root), tables, {policy: _published(root, policy) for policy in POLICIES})


@cache
def contents(folder: str) -> str:
    """Return a hash of the files in that folder, so that rows from other data do not count. Raises StudyError."""
    root = Path(folder)
    found = sorted(path for path in root.rglob("*") if path.suffix in (".csv", ".json"))
    if not found:
        raise StudyError(f"--data: {folder} has no data of the Pollux artifact; {SEE}")
    return hash_of((path.relative_to(root).as_posix(), path) for path in found)


def _profiles(root: Path) -> dict[str, Profile]:
    wide = table(root / "interpolated.csv")
    return {path.name: _profile(path, wide) for path in sorted((root / "traces").iterdir()) if path.is_dir()}


def _profile(folder: Path, wide: Table) -> Profile:
    trainings = {size: table(path) for size, path in _numbered(folder, "validation-*.csv").items()}
    try:
        return profile(folder.name, table(folder / "placements.csv"), wide, trainings)
    except TraceError as error:
        raise StudyError(f"{folder}: {lines(error)}; {SEE}") from None


def _numbered(folder: Path, pattern: str) -> dict[int, Path]:
    """Return the files of the pattern by the number at the end of their names. Raises StudyError if there are none."""
    found = [(path.stem.rpartition("-")[2], path) for path in folder.glob(pattern)]
    if not found or not all(number.isdigit() for number, _ in found):
        raise StudyError(f"{folder}: it must have files {pattern}, each with its number; {SEE}")
    return dict(sorted((int(number), path) for number, path in found))


def _published(root: Path, policy: str) -> Mapping[int, Mapping[str, float]]:
    """Return the published completion times of a policy by workload and job."""
    path = root / "results" / f"{policy}-{LOAD}.json"
    read = parsed(path, text_of(path))
    try:
        return {
            int(name.rpartition("-")[2]): {job: float(seconds) for job, seconds in one["jct"].items()}
            for name, one in read["workloads"].items()
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        shape = '{"workloads": {"workload-N": {"jct": {JOB: SECONDS}}}}'
        raise StudyError(f"{path}: the completion times must have the form {shape}; {SEE}") from None
