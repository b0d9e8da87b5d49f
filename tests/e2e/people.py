"""A thread that acts for users in a scenario: it deletes jobs that do not end, and plays the JobSet controller."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.controlplane import ControlPlane
from tests.e2e.background import Background
from tests.e2e.jobsets import reconcile
from tests.e2e.manifests import objects
from tests.e2e.observer import ClusterObserver
from tests.e2e.scenario import GROUPS, KINDS, Arrival

ENDS = ("Succeeded", "Complete", "Completed", "Failed")


@dataclass(slots=True)
class People(Background):
    """Users who submit and delete jobs; ``named`` has the names of deleted jobs by the UID that Kohort uses."""

    plane: ControlPlane
    space: str
    observer: ClusterObserver
    named: dict[str, str] = field(default_factory=dict)
    problem: str = ""
    _lasting: list[Arrival] = field(default_factory=list)
    _whole: dict[str, float] = field(default_factory=dict)

    def submit(self, job: Arrival) -> None:
        """Create all objects of the job; a job that does not end by itself is deleted later."""
        for path, manifest in objects(job, self.space):
            self.plane.api.create(path, manifest)
        if KINDS[job.kind].lasts:
            self._lasting.append(job)

    def delete(self, job: Arrival) -> None:
        """Delete the job, and tell the observer when."""
        path = job.path(self.space)
        uid = self.plane.api.get(path)["metadata"]["uid"]
        self.named[f"{self.space}/{uid}"] = job.name
        self.observer.deleted_at[job.name] = time.monotonic()
        self.plane.api.delete(path)

    def ended(self, job: Arrival) -> str:
        """Return how the job ended, or "" if it has not."""
        if KINDS[job.kind].lasts:
            gone = job.name in self.observer.deleted_at and not self.observer.there_now(job.name)
            return "Deleted" if gone else ""
        if job.kind in GROUPS:
            phases = {sighting.phase for sighting in self.observer.there_now(job.name)}
            return "Failed" if "Failed" in phases else "Succeeded" if phases == {"Succeeded"} else ""
        status = self.plane.api.get(job.path(self.space)).get("status", {})
        found = [c["type"] for c in status.get("conditions") or () if c["type"] in ENDS and c["status"] == "True"]
        return next(iter(found), "")

    def clear(self, kinds: Iterable[str]) -> None:
        """Delete all jobs of these kinds, whose controllers would otherwise keep creating pods."""
        for kind in (KINDS[name] for name in kinds):
            self.plane.api.delete(f"/apis/{kind.api}/namespaces/{self.space}/{kind.plural}")

    def run(self) -> None:
        """Play the JobSet controller and delete long-running jobs that are due, until the context ends."""
        try:
            while not self.stopped.wait(0.3):
                reconcile(self.plane, self.space)
                for job in self._lasting:
                    if self._is_done(job):
                        self.delete(job)
        except Exception as error:  # Tests check ``problem``, because an error in a thread would go unnoticed.
            self.problem = repr(error)

    def _is_done(self, job: Arrival) -> bool:
        if job.name in self.observer.deleted_at:
            return False
        runs = [one for one in self.observer.bound_now(job.name) if one.phase == "Running"]
        if len(runs) >= job.least:
            self._whole.setdefault(job.name, time.monotonic())
        return job.name in self._whole and time.monotonic() - self._whole[job.name] >= job.seconds
