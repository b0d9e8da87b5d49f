"""Checks of a finished scenario, made from an observer's record, the jobs' objects and the journal."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from policy.cluster.actions import Admit, Effect, Migrate, Released, Resize
from tests.controlplane import ControlPlane, NodeShape
from tests.e2e.chapters import DONE, GROWS, RIVALS
from tests.e2e.freedroom import broken, effects_in, promises
from tests.e2e.observer import ClusterObserver
from tests.e2e.people import People
from tests.e2e.scenario import KINDS, PER_PS, Arrival

Json = dict[str, Any]
WINDOW = 8.0
LATE = 2.0  # The observer may be late by so many seconds.
CORES = float(NodeShape().cpu)
MEMORY = "kohort.dev/memory"


@dataclass(frozen=True, slots=True)
class Seen:
    """A finished scenario with its checks.

    ``named`` is a mapping from job UIDs to names; ``scheduled`` tells that OASiS planned the jobs in time slots.
    """

    plane: ControlPlane
    space: str
    observer: ClusterObserver
    effects: Sequence[tuple[float, Effect]]
    named: Mapping[str, str]
    scheduled: bool

    @classmethod
    def of(cls, people: People, folder: Path, *, scheduled: bool) -> Seen:
        """Return the finished scenario with names from the objects and decisions from the journal in ``folder``."""
        plane, space = people.plane, people.space
        named = dict(_names(plane, space)) | people.named
        return cls(plane, space, people.observer, effects_in(folder), named, scheduled)

    def told(self) -> str:
        """Return as a sentence for people how often each kind of decision was made."""
        return ", ".join(
            f"{count} {name}" for name, count in Counter(type(e).__name__ for _, e in self.effects).items()
        )

    def _decided(self, job: str) -> list[Admit | Resize]:
        return [e for _, e in self.effects if isinstance(e, Admit | Resize) and self.named[e.job_uid] == job]

    def _resizes(self, job: str) -> list[Resize]:
        return [e for e in self._decided(job) if isinstance(e, Resize)]

    def _spec(self, job: Arrival) -> Json:
        spec: Json = self.plane.api.get(job.path(self.space))["spec"]
        return spec

    # -- The functions below check rules that hold for every job. ----------------------------------

    def hold_to_the_rules(self, job: Arrival) -> None:
        """Check that the job was bound whole within the barrier's window and stayed within its bounds.

        Also check that workers with the highest indices were removed first, and that the job kept the rigid members
        that it asked for, unless a schedule of OASiS may change its ps or it was moved, paused or released.
        """
        observer, role = self.observer, KINDS[job.kind].worker
        assert observer.partial_seconds(job.name, job.members) <= WINDOW + LATE, job.name
        assert observer.most_bound(job.name, role) <= job.most, job.name
        if not job.impossible:
            assert observer.most_bound(job.name, role) >= job.least, job.name
        if not (self.scheduled and job.elastic_ps):
            self._asks_for_the_same(job)
        if self._stays(job):
            assert observer.least_bound(job.name, job.members) >= job.members, job.name
            assert observer.taken_before_higher(job.name, role, LATE) == [], job.name
            self._has_the_same_members(job)

    def _stays(self, job: Arrival) -> bool:
        """Tell whether the job was never moved, paused or released; OASiS pauses every job that can be suspended."""
        again = {self.named[e.job_uid] for _, e in self.effects if isinstance(e, Migrate | Released)}
        return job.name not in again and not (self.scheduled and KINDS[job.kind].pauses)

    def _asks_for_the_same(self, job: Arrival) -> None:
        """Check that the job's object still asks for the number of rigid members that its user asked for."""
        if job.kind == "JobSet":
            asked = {one["name"]: one["template"]["spec"]["parallelism"] for one in self._spec(job)["replicatedJobs"]}
            assert asked == {"driver": 1, "workers": job.asked}, job.name
        elif job.rigid:
            roles = self._spec(job)[KINDS[job.kind].roles_at]
            assert {role: roles[role]["replicas"] for role in job.rigid} == job.rigid, job.name

    def _has_the_same_members(self, job: Arrival) -> None:
        """Check that every rigid member was bound exactly once; in a rigid job, also every worker."""
        members = {s.uid: s.role for s in self.observer.sightings if s.job == job.name and s.bound}
        asked = {role.lower(): count for role, count in job.rigid.items()}
        bound, worker = Counter(members.values()), KINDS[job.kind].worker
        if job.least == job.most:
            asked[worker] = job.least
        else:
            del bound[worker]
        assert bound == ({} if job.impossible else asked), job.name

    def hold_to_the_promises(self) -> set[str]:
        """Check that room freed for a job went to that job; return the names of the jobs that got freed room."""
        kept = promises(self.effects, self.named.__getitem__)
        epoch = time.time() - time.monotonic()
        assert [what for promise in kept for what in broken(promise, self.observer.sightings, CORES, epoch)] == []
        return {promise.job for promise in kept}

    # -- The functions below check what one policy must have done. ---------------------------------

    def workers_were_taken_and_given_back(self) -> None:
        """Check that each job of `chapters.Taken` grew, gave workers to its heavier rival, and grew again."""
        for name, (rival, _) in RIVALS.items():
            resizes = self._resizes(name)
            ahead = [self.named.get(resize.on_behalf_of, "") for resize in resizes]
            assert rival in ahead, resizes
            taken = ahead.index(rival)
            before = max(resize.workers for resize in resizes[:taken])
            assert resizes[taken].workers < before, resizes
            assert before in {resize.workers for resize in resizes[taken + 1 :]}, resizes
            assert self.observer.most_bound(name) == before

    def one_was_moved(self) -> None:
        """Check that SpeCon moved exactly one job, and did not disturb the job beside it."""
        moves = [self.named[e.job_uid] for _, e in self.effects if isinstance(e, Migrate)]
        assert moves == [DONE]
        assert len({s.uid for s in self.observer.sightings if s.job == GROWS}) == 2

    def schedules_were_made(self, jobs: Sequence[Arrival]) -> None:
        """Check that OASiS wrote, for each job that describes its training, a schedule within the job's bounds.

        Where the job lets the schedule change its ps, also check the numbers of ps.
        """
        for job in (job for job in jobs if job.training and KINDS[job.kind].remembers):
            notes = self.plane.api.get(job.path(self.space))["metadata"]["annotations"]
            runs = json.loads(notes[MEMORY])["oasis"]["plan"][3]
            workers, servers = _counts(runs, "worker"), _counts(runs, "ps")
            assert workers, job.name
            assert all(job.least <= count <= job.most for count in workers), (job.name, runs)
            if job.elastic_ps:
                given = {e.ps for e in self._decided(job.name) if e.ps}
                assert servers == {-(-count // PER_PS) for count in workers}, (job.name, runs)
                assert given, job.name
                assert given <= {-(-count // PER_PS) for count in range(job.least, job.most + 1)}, (job.name, given)
                assert self._spec(job)["tfReplicaSpecs"]["PS"]["replicas"] in given
                assert self.observer.most_bound(job.name, "ps") in given


def _counts(runs: list[Any], role: str) -> set[int]:
    """Return the distinct numbers of members of that role over the time slots of a written schedule."""
    return {sum(count for name, _, count in layout if name == role) for _, _, layout in runs}


def _names(plane: ControlPlane, space: str) -> Iterator[tuple[str, str]]:
    for kind in KINDS.values():
        for item in plane.api.get(f"/apis/{kind.api}/namespaces/{space}/{kind.plural}")["items"]:
            yield f"{space}/{item['metadata']['uid']}", item["metadata"]["name"]
