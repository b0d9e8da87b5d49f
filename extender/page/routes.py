"""The page's routes and headers. Every link is relative, so that the page also works below a path of a proxy."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from extender.access.redaction import Redaction
from extender.access.visibility import Visibility, caller_of
from extender.comparison.comparisons import ComparisonError, Comparisons
from extender.page.clusterpage import ClusterPage, ReadinessSource
from extender.page.comparisonpage import EMPTY, POLICIES, ComparisonPage
from extender.page.frames import Frame, Frames, Lists, PageThread
from extender.page.htmlrows import ASSETS, Rows, asset, page, stamp
from extender.page.jobpage import JobPage
from extender.page.loadhistory import History
from extender.page.marks import Looks
from extender.page.timeline import Timeline
from extender.present.explainview import explanation
from extender.present.names import job_named
from extender.state.ledger import Ledger
from policy.answers.explanation import Explanation

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
MOST_VISIBILITIES: Final = 16
# A browser that already shows the finished comparison sends this text as the name of its frame.
FOUND: Final = "found"
FOR_EVER: Final = {"Cache-Control": "public, max-age=31536000, immutable"}


class Page:
    """The handlers of the routes of Kohort's pages for people."""

    def __init__(self, ledger: Ledger, vitals: ReadinessSource, history: History, comparisons: Comparisons) -> None:
        """Prepare the pages; nothing is drawn before the first request."""
        self._comparisons = comparisons
        self._ledger = ledger
        self._vitals = vitals
        self.history = history
        self._maker = PageThread(ledger.clock)
        self._one_at_a_time = asyncio.Lock()
        self._timeline, self._looks = Timeline(ledger.journal), Looks()
        self._frames: OrderedDict[Visibility, Frames] = OrderedDict()
        self._job = JobPage(ledger, self._timeline, self._looks, Rows("../../"))
        self._comparison = ComparisonPage(Rows("../"))

    def routes(self) -> list[Route]:
        """Return the page's routes; the app that serves REST adds them."""
        return [
            Route("/", self.overview, methods=["GET"]),
            Route("/parts", self.parts, methods=["GET"]),
            Route("/jobs/{namespace}/{name}", self.job, methods=["GET"]),
            Route("/jobs/{namespace}/{name}/parts", self.job_parts, methods=["GET"]),
            Route("/comparison", self.comparisons, methods=["GET"]),
            Route("/comparison/{policy}", self.comparison, methods=["GET"]),
            Route("/comparison/{policy}/parts", self.comparison_parts, methods=["GET"]),
            Route("/assets/{stamp}/{name}", self.asset, methods=["GET"]),
        ]

    def _stale(self, generation: int) -> bool:
        return generation != self._ledger.snapshot.generation

    def _frames_for(self, visibility: Visibility) -> Frames:
        """Return the frames that all viewers with this visibility share.

        Frames are kept for at most MOST_VISIBILITIES different visibilities, because the frames of each visibility take
        memory.
        """
        found = self._frames.get(visibility)
        if found is None:
            cluster = ClusterPage(
                self._ledger, self._vitals, self.history, self._timeline, Rows(), self._looks, visibility
            )
            found = self._frames[visibility] = Frames(cluster.make, self._stale, self._ledger.clock, self._maker)
            if len(self._frames) > MOST_VISIBILITIES:
                self._frames.popitem(last=False)
        self._frames.move_to_end(visibility)
        return found

    async def overview(self, request: Request) -> Response:
        """Answer with the page of the cluster."""
        frame = await self._frames_for((await caller_of(request)).visibility).newest()
        return await self._page("overview.html", frame.name, "parts", lists=frame.lists, facts=frame.facts)

    async def parts(self, request: Request) -> Response:
        """Answer with what has changed on the cluster's page since the version (frame) that the viewer has."""
        frames = self._frames_for((await caller_of(request)).visibility)
        return JSONResponse(await frames.news(request.query_params.get("since", "")), headers=HEADERS)

    async def job(self, request: Request) -> Response:
        """Answer with the page of one job."""
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        asked = request.query_params.get("unblock") == "true"
        found = await self._tried(namespace, name) if asked else None
        redaction = Redaction((await caller_of(request)).visibility)
        lists = await self._maker(lambda: self._job.make(namespace, name, redaction, found))
        if lists is None:
            text = (
                f"No job {namespace}/{name} is known; one appears as soon as its pods name Kohort as their scheduler."
            )
            return await self._page("message.html", "", "", "../../", 404, heading="No such job", text=text)
        parts = "" if asked else f"{quote(name, safe='')}/parts"  # a page with trial decisions does not update itself
        return await self._page("job.html", "", parts, "../../", key=f"{namespace}/{name}", lists=lists)

    async def _tried(self, namespace: str, name: str) -> Explanation | None:
        """Return the job's explanation with its possible changes, each tried by a decision on a copy of the state.

        The trial decisions take long, so they are made on another thread, for one request at a time.
        """
        ledger = self._ledger
        job = job_named(ledger.snapshot, namespace, name)
        if job is None:
            return None
        async with self._one_at_a_time:
            return await asyncio.to_thread(explanation, ledger.snapshot, job, ledger.policy, ledger.now(), trials=True)

    async def job_parts(self, request: Request) -> Response:
        """Answer with all current lists of the job's page, for the browser to replace the old ones."""
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        redaction = Redaction((await caller_of(request)).visibility)
        lists = await self._maker(lambda: self._job.make(namespace, name, redaction)) or {}
        frame = Frame(0, "", self._ledger.snapshot.generation, lists, {"now": self._now()})
        return JSONResponse(frame.changes_since(None), headers=HEADERS)

    async def comparisons(self, _: Request) -> Response:
        """Answer with the page on which the user chooses a policy to compare."""
        what = "Choose a policy to see what it would have decided at every recorded decision."
        head: dict[str, Any] = {"heading": "Another policy on the recorded journal", "policies": POLICIES, "chosen": ""}
        lists = {**EMPTY, "answer": [f'<p class="reason">{what}</p>']}
        return await self._page("comparison.html", "", "", **head, lists=lists)

    async def comparison(self, request: Request) -> Response:
        """Answer with the comparison with that policy, or with a page that waits while it is computed."""
        policy = request.path_params["policy"]
        head: dict[str, Any] = {"heading": f"{policy} on the recorded journal", "policies": POLICIES, "chosen": policy}
        try:
            self._comparisons.check(policy)
        except ComparisonError as error:
            return await self._no_comparison(str(error))
        found = self._comparisons.known(policy)
        make = self._comparison
        lists = await self._maker(lambda: make.of(found) if found is not None else make.pending(policy))
        parts = "" if found is not None else f"{quote(policy, safe='')}/parts"  # a finished comparison needs no updates
        return await self._page("comparison.html", "", parts, "../", **head, lists=lists)

    async def comparison_parts(self, request: Request) -> Response:
        """Wait until the comparison is computed and answer with its lists; with no lists if the viewer has them
        already.
        """
        policy, since = request.path_params["policy"], request.query_params.get("since", "")
        lists: Lists = {}
        if since != FOUND:
            try:
                found = await self._comparisons.compare(policy)
                lists = await self._maker(lambda: self._comparison.of(found))
            except ComparisonError as error:
                text = str(error)
                lists = await self._maker(lambda: self._comparison.failed(text))
        answer = {"frame": FOUND, "revision": 0, "facts": {"now": self._now()}, "lists": lists}
        return JSONResponse(answer, headers=HEADERS)

    async def _no_comparison(self, text: str) -> Response:
        return await self._page("message.html", "", "", "../", 404, heading="No comparison", text=text)

    async def asset(self, request: Request) -> Response:
        """Answer with a style sheet, script or icon of the package."""
        name = request.path_params["name"]
        if name not in ASSETS or request.path_params["stamp"] != stamp(name):
            return Response("there is no such file\n", 404, HEADERS, "text/plain")
        return Response(asset(name), headers={**HEADERS, **FOR_EVER}, media_type=ASSETS[name])

    def _now(self) -> str:
        return f"{self._ledger.now():.3f}"

    async def _page(
        self, template: str, frame: str, parts: str, prefix: str = "", status: int = 200, **values: Any
    ) -> Response:
        shown = {"frame": frame, "parts": parts, "prefix": prefix, "now": self._now(), **values}
        return HTMLResponse(await self._maker(lambda: page(template, **shown)), status, HEADERS)
