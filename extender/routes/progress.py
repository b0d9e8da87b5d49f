"""Training code reports its progress: POST /v1/progress, or /v1/jobs/NAMESPACE/NAME/progress.

The request carries the pod's own token, projected for the audience of the settings. The API server says whose token it
is (TokenReview), and only a member of the job may report for it. A refusal of a wrong report names the field.
The number of reports per job is limited, so that no job can disturb others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from extender.access.reviews import BusyError, ReviewsTokens, Tokens, UnansweredError
from extender.config.sections import ProgressSettings as Settings
from extender.kube.reportbody import ReportBodyError, read_report_body, report_of
from extender.state.ledger import Ledger
from policy.cluster.events import Reported, Saved
from policy.cluster.job import Job
from policy.cluster.pod import Pod

KNOWN_JOBS: Final = 10_000


class ReportError(Exception):
    """The report is not accepted: the HTTP status, and a sentence that says why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Progress:
    """Checks reports and posts them to the ledger."""

    def __init__(self, ledger: Ledger, reviewer: ReviewsTokens, settings: Settings) -> None:
        self._ledger = ledger
        self._settings = settings
        self._tokens = Tokens(reviewer, ledger.clock, (settings.audience,), settings.token_seconds, waiting=0)
        self._last: dict[str, float] = {}

    def app(self) -> Starlette:
        """Return the app with the routes of this module, for a listener that training pods can reach."""
        routes = [
            Route("/v1/progress", self.take, methods=["POST"]),
            Route("/v1/jobs/{namespace}/{name}/progress", self.take, methods=["POST"]),
        ]
        return Starlette(routes=routes)

    async def take(self, request: Request) -> Response:
        """Check a report and post it to the ledger.

        Answer 204; 200 if the job should also save a checkpoint; or an error status with one sentence.
        """
        try:
            self._leads()
            pod = await self._member(request.headers.get("authorization", ""))
            job = self._job(pod, request.path_params)
            told = read_report_body(await request.body())
            if not (told.saved and self._saves(job)):
                self._not_too_often(job)
            report = report_of(told, self._ledger.now())
        except ReportBodyError as error:
            return JSONResponse({"message": str(error)}, 422)
        except ReportError as error:
            headers = {"Retry-After": "1"} if error.status == 429 else {}
            return JSONResponse({"message": str(error)}, error.status, headers)
        self._last[job.uid] = self._ledger.clock.monotonic()
        if report is not None:
            self._ledger.post(Reported(job.uid, report))
        if told.saved and self._saves(job):
            self._ledger.step(Saved(job.uid))
        return JSONResponse({"checkpoint": True}) if self._saves(job) else Response(status_code=204)

    def _saves(self, job: Job) -> bool:
        """Tell whether the job is about to be moved and has not reported yet that it has saved a checkpoint.

        A job reports that only once for a move, so the limit on reports does not apply to that report.
        """
        return self._ledger.snapshot.gang(job.uid).saving

    def _leads(self) -> None:
        """Raise ReportError on a replica that does not lead, because the report would not reach the leader."""
        snapshot = self._ledger.snapshot
        if not (snapshot.synced and snapshot.leading):
            raise ReportError(503, "this replica does not lead; try again, another one answers")

    async def _member(self, authorization: str) -> Pod:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise ReportError(401, "send the pod's token: Authorization: Bearer TOKEN")
        uid = await self._pod_of(token.strip())
        pod = self._ledger.snapshot.pods.get(uid)
        if pod is None or not pod.job_uid:
            raise ReportError(
                403, "the token's pod is not a member of a job that Kohort knows; send a member's own token"
            )
        return pod

    async def _pod_of(self, token: str) -> str:
        """Return the UID of the pod for which the token was issued. Raise ReportError if the token is not accepted.

        The API server's answers are cached for a short time, and few requests are sent to it at once.
        """
        try:
            user = await self._tokens.owner(token)
        except BusyError:
            raise ReportError(429, "too many tokens are being reviewed; try again") from None
        except UnansweredError:
            raise ReportError(503, "the API server cannot review the token now; try again") from None
        if user is None or not user.pod_uid:
            allowed = f"a token of the pod's own ServiceAccount with audience {self._settings.audience}"
            raise ReportError(401, f"the API server does not accept this token; allowed: {allowed}")
        return user.pod_uid

    def _job(self, pod: Pod, path: Mapping[str, str]) -> Job:
        job = self._ledger.snapshot.jobs.get(pod.job_uid)
        if job is None:
            raise ReportError(404, "the pod's job is not known yet; try again")
        if path and (job.namespace, job.name) != (path["namespace"], path["name"]):
            asked = f"{path['namespace']}/{path['name']}"
            raise ReportError(403, f"pod {pod.namespace}/{pod.name} is a member of {job.key} and not of {asked[:200]}")
        return job

    def _not_too_often(self, job: Job) -> None:
        now, gap = self._ledger.clock.monotonic(), self._settings.interval_seconds
        if now - self._last.get(job.uid, -math.inf) < gap:
            raise ReportError(429, f"reports for {job.key} come too often; allowed: one in {gap:g} s")
        if len(self._last) > KNOWN_JOBS:
            self._last = {uid: at for uid, at in self._last.items() if now - at < gap}
