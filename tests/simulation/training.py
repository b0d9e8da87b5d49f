"""Play the training code: a member of each running job reports its progress, and sometimes sends a report that Kohort
must not count.

This module also plays the user who deletes a trained job of a kind that does not end by itself.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request

from extender.access.reviews import POD_UID
from extender.kube.api import Done, Outcome
from lab.sim.objects import JobObject, JobPhase, PodObject
from lab.virtual.clocks import loop_time, sleep

if TYPE_CHECKING:
    from tests.simulation.run import Simulation

EVERY: Final = 3.0  # A job sends a report after every 3 s.
CONVERGES: Final = 12.0  # The loss is exp(-CONVERGES * share of the work done).
SAVES: Final = 0.8  # This share of the jobs that are asked for a checkpoint save one; the others let the deadline pass.
FORGED: Final = 1e9  # No training reports this metric, so that reports that must not count can be recognised.
ABSURD: Final = ('{"metric": NaN}', '{"metric": 1e300}', '{"metric": -1e999}', '{"step": 9, "steps": 3}', "[" * 99, "")


class PodTokens:
    """The API server's TokenReview; in the simulation the token of a pod is its UID."""

    async def review_token(self, token: str, audiences: Sequence[str]) -> Outcome:
        user = {"username": "u", "extra": {POD_UID: [token]}}
        return Done({"status": {"authenticated": True, "audiences": list(audiences), "user": user}})


class Reporting:
    """Sends the reports of all jobs to the leading replica."""

    def __init__(self, sim: Simulation) -> None:
        self.taken = 0
        self.trained = 0  # number of trained jobs that their users have deleted
        self.wrong: list[str] = []  # reports that the extender accepted although it should have refused them
        self._sim = sim
        self._faults = sim.faults
        self._chance = random.Random(f"training {sim.scenario.seed}")
        self._frozen: dict[str, float] = {}

    async def run(self) -> None:
        """Send reports until cancelled."""
        while True:
            await sleep(EVERY)
            for job, pod in list(self._reporters()):
                await self._report(job, pod)
            self._delete_trained()

    def _reporters(self) -> Iterator[tuple[JobObject, PodObject]]:
        store = self._sim.world.store
        for job in list(store.jobs.values()):
            working = (pod for pod in store.pods_of(job.uid) if pod.works and pod.slot is not None)
            pod = next(working, None)
            if (job.phase is JobPhase.RUNNING or not job.spec.kind.ends) and pod is not None:
                yield job, pod

    def _delete_trained(self) -> None:
        world = self._sim.world
        for job in list(world.store.jobs.values()):
            if not job.spec.kind.ends and world.progress(job.uid).done >= job.spec.work_seconds:
                self.trained += 1
                self._sim.cluster.bridge.do(lambda w, spec=job.spec: w.delete_job(spec.namespace, spec.name))  # type: ignore[misc]

    async def _report(self, job: JobObject, pod: PodObject) -> None:
        drawn = self._faults.fault_at(
            [f"training: report of {job.key}"],
            "report-lost", "report-late", "report-frozen", "report-absurd", "report-forged", chance=self._chance,
        )  # fmt: skip
        fault = drawn.kind
        if fault == "report-lost":
            return
        body = json.dumps(self._said(job, frozen=fault == "report-frozen"))
        if fault == "report-absurd":
            await self._send(pod, "", drawn.choice("body", ABSURD), bad=True)
        elif fault == "report-forged":
            others = [other.key for other in self._sim.world.store.jobs.values() if other.uid != job.uid]
            victim = drawn.choice("for", others or ["default/nobody"])
            await self._send(pod, victim, json.dumps({"metric": FORGED}), bad=True)
        elif fault == "report-late":
            self._later(self._send(pod, "", body), lambda: drawn.uniform("late", 2.0, 15.0))
        else:
            await self._send(pod, "", body)

    def _later(self, sending: Coroutine[Any, Any, None], seconds: Callable[[], float]) -> None:
        async def wait() -> None:
            await sleep(seconds())
            await sending

        self._sim.spawn(wait())

    def _said(self, job: JobObject, *, frozen: bool) -> dict[str, float | int]:
        done = self._sim.world.progress(job.uid).at(self._sim.world.now) / job.spec.work_seconds
        if frozen:
            done = self._frozen.setdefault(job.uid, done)
        share = min(1.0, max(0.0, done))
        return {"metric": math.exp(-CONVERGES * share), "step": round(1000 * share), "steps": 1000}

    async def _send(self, pod: PodObject, path: str, body: str, *, bad: bool = False) -> None:
        """Send a report to one replica, and to the other if the first does not lead. ``bad`` says that the report must
        not be accepted.
        """
        replicas = list(self._sim.replicas)
        self._chance.shuffle(replicas)
        for replica in replicas:
            extender = replica.extender
            if not extender.ready:
                continue
            status = await extender.reported(self._request(pod, path, body))
            if status in (200, 204):
                self.taken += 1
                if status == 200 and not bad and self._chance.random() < SAVES:
                    self._later(self._send(pod, "", '{"saved": true}'), lambda: self._chance.uniform(0.5, 5.0))
                if bad:
                    self.wrong.append(f"{body[:40]} of {pod.name} for {path or 'its job'} at {loop_time():.3f}")
            if status != 503:
                return

    def _request(self, pod: PodObject, path: str, body: str) -> Request:
        namespace, _, name = path.partition("/")
        scope: dict[str, Any] = {
            "type": "http", "method": "POST", "path": "/v1/progress", "query_string": b"",
            "headers": [(b"authorization", f"Bearer {pod.uid}".encode())],
            "path_params": {"namespace": namespace, "name": name} if path else {},
        }  # fmt: skip
        sent = [{"type": "http.request", "body": body.encode(), "more_body": False}]

        async def receive() -> dict[str, Any]:
            return sent.pop() if sent else {"type": "http.disconnect"}

        return Request(scope, receive)
