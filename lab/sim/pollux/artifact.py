"""The data of the Pollux artifact (OSDI 2021): measurements, workloads, and the published completion times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.sim.pollux.profiles import Profile
from lab.sim.pollux.workload import PolluxWorkload, workload
from lab.sim.traces.reading import Table


@dataclass(frozen=True, slots=True)
class PolluxArtifact:
    """The data as it was read.

    ``tables``: the rows of the workloads by their number, from 1. ``published``: the completion time of every job in
    seconds, by policy, number of the workload and name of the job.
    """

    profiles: Mapping[str, Profile]
    tables: Mapping[int, Table]
    published: Mapping[str, Mapping[int, Mapping[str, float]]]

    def workload(self, number: int, *, elastic: bool = True) -> PolluxWorkload:
        """Return the jobs of that workload. Raises TraceError with every faulty row.

        elastic: whether jobs may have other numbers of GPUs than they ask for.
        """
        return workload(self.tables[number], self.profiles, elastic=elastic)
