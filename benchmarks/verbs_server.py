"""Serve the real app on a loopback port with a made-up cluster in memory, for ``benchmarks.verbs``.

It prints one line of JSON with its port, the planned gang's nodes, the refused gang's state, and the number of pods.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Mapping

import msgspec
import uvloop
from starlette.requests import Request
from starlette.responses import Response

from benchmarks import scenes
from extender.app import Live
from extender.cli.processes import prefer_the_loop
from extender.clock import Clock
from extender.config.settings import Settings
from extender.http.limits import limits_of
from extender.http.server import Endpoint, serve
from extender.kube.api import Done, Json, Outcome, Ref
from extender.routes.verbs import too_long
from policy.cluster.events import Event, JobSeen, NodeSeen, PodSeen, Synced
from policy.cluster.pod import Pod
from tests.builders import guest, job, members, node
from tests.unasked import Unasked

EMPTY_NODES = 20
FOREIGN = ("stranger", "uid-stranger")


class BindsAll(Unasked):
    """An API server that accepts every binding at once and has nothing to watch."""

    async def bind(self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]) -> Outcome:
        """Return the outcome Done, without doing anything."""
        return Done({})

    async def get(self, ref: Ref) -> Json | None:
        """Return None, as if no object existed."""
        return None


class Echoed(msgspec.Struct):
    """The body of a filter call, decoded into the parts that Kohort decodes."""

    Pod: msgspec.Raw
    Nodes: msgspec.Raw
    NodeNames: list[str] | None


DECODER = msgspec.json.Decoder(Echoed)


async def echo(request: Request) -> Response:
    """Decode the body and send it back, which is the least work that an extender with these libraries does."""
    return Response(msgspec.json.encode(DECODER.decode(await request.body())), media_type="application/json")


def fill(live: Live, nodes: int, pods: int) -> dict[str, Pod]:
    """Add this number of nodes and pods to the service.

    Foreign pods fill all but twenty nodes; one gang runs, one is planned, and one waits.
    """
    names = [scenes.name_of(number) for number in range(nodes)]
    empty, full = names[:EMPTY_NODES], names[EMPTY_NODES:]
    events: list[Event] = [NodeSeen(node(name)) for name in names]
    each = max(1, pods // max(1, len(full)))
    events += [
        PodSeen(guest(f"guest-{number}", full[number % len(full)], 9.9 / each, 0.01))
        for number in range(pods if full else 0)
    ]
    planned = job("planned").ps(1).workers(2).done()
    refused = job("refused").ps(1).workers(3, cpu=9).with_(utility=0.001).done()
    blocker = job("blocker").ps(1, cpu=9.5, memory=1).workers(max(1, len(empty) - 2), cpu=9.5).done()
    for made in (planned, blocker, refused):
        events += [JobSeen(made), *(PodSeen(pod) for pod in members(made))]
    live.ledger.step(*events, PodSeen(guest(FOREIGN[0], "", 0.1, 0.1)), Synced())
    return {"planned": members(planned)[0], "refused": members(refused)[0]}


async def run(nodes: int, pods: int, journal: str = "") -> None:
    """Serve the app until the process is killed; ``journal`` is the folder of a journal, if one is kept."""
    settings = Settings.model_validate({"lease": {"identity": "*"}, "journal": {"folder": journal}})
    live = Live(settings, BindsAll(), Clock(), random.Random(1))
    fill(live, nodes, pods)
    others = live.rest()
    others.add_api_route("/echo", echo, methods=["POST"])
    app = live.with_verbs(others)
    planned = live.ledger.snapshot.gang("job-planned").nodes
    refused = live.ledger.snapshot.gang("job-refused").state.value

    def ready(addresses: list[tuple[str, int]]) -> None:
        print(json.dumps({"port": addresses[0][1], "planned": sorted(set(planned.values())), "refused": refused,
                          "pods": len(live.ledger.snapshot.pods)}), flush=True)  # fmt: skip

    await serve([Endpoint(app, "127.0.0.1", 0, limits_of(settings), too_long)], on_ready=ready)


if __name__ == "__main__":
    prefer_the_loop()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
