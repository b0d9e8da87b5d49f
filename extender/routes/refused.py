"""The controller reports which of its writes the API server refuses: POST /v1/refused-writes.

Only the listener for the controller has this route. A report becomes an event of the ledger, like the outcome of a
binding. The controller must send a header that other web sites cannot make a browser send, so that no web site can send
such a report through a user's browser.
"""

from __future__ import annotations

from collections.abc import Container

from fastapi import APIRouter, Response

from extender.http.headers import CLIENT_HEADER, CONTROLLER
from extender.kube.jobobjects import identity
from extender.present.views.refused import RefusedBody, RefusedWritesBody
from extender.routes.problems import ProblemError, routed
from extender.routes.restparameters import Client
from extender.state.ledger import Ledger
from policy.cluster.events import WritesRefused
from policy.cluster.refusedwrite import RefusedWrite


def router(ledger: Ledger) -> APIRouter:
    """Return a router with the route POST /v1/refused-writes."""
    routes = APIRouter(prefix="/v1", route_class=routed(lambda: ""))

    async def take(told: RefusedWritesBody, client: Client = "") -> Response:
        """Take the list of all refused writes; it replaces the list of the last report."""
        if client != CONTROLLER:
            allowed = f"{CLIENT_HEADER}: {CONTROLLER}"
            raise ProblemError(403, f"only the controller may report refused writes; allowed: {allowed}")
        take_in(ledger, told)
        return Response(status_code=204)

    routes.add_api_route("/refused-writes", take, methods=["POST"], include_in_schema=False)
    return routes


def take_in(ledger: Ledger, told: RefusedWritesBody) -> None:
    """Post the controller's list of refused writes to the ledger as an event."""
    jobs = ledger.snapshot.jobs
    refused = (RefusedWrite(one.write, _known(one, jobs), one.message, one.lasting) for one in told.refused)
    ledger.post(WritesRefused(tuple(refused)))


def _known(one: RefusedBody, jobs: Container[str]) -> str:
    """Return the UID by which the ledger knows the object: namespace/UID for a job, the UID alone for a pod."""
    of_job = identity(one.namespace, one.uid)
    return of_job if of_job in jobs else one.uid
