"""The listener for people with an API server that knows a few tokens and rights, on clusters of several namespaces."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import httpx

from extender.access.reviews import GROUP, RESOURCE, VERB
from extender.app import Live
from extender.config.settings import Settings
from extender.kube.api import Done, Json, Outcome, Unknown
from policy.cluster.actions import Effect
from policy.cluster.events import Event, JobGone, JobSeen, PodSeen
from policy.cluster.gang import State
from policy.cluster.job import Job
from policy.cluster.node import Node
from tests import builders
from tests.builders import JobBuilder, World
from tests.stage import FakeApi, HandClock

OURS = "ours"
HIDDEN = "canary-space"
"""Nobody who may read OURS alone is ever told a word with ``canary`` in it."""


class Server(FakeApi):
    """A fake API server: it knows the owner of each token and the namespaces that each user may read (``""``: all)."""

    def __init__(self) -> None:
        super().__init__()
        self.users = {"token-ann": "ann", "token-root": "root", "token-eve": "eve"}
        self.rights = {"ann": {OURS}, "root": {""}, "eve": set[str]()}
        self.audiences = ["kohort.dev"]
        self.down = False
        self.asked: list[Any] = []

    async def review_token(self, token: str, audiences: Sequence[str]) -> Outcome:
        self.asked.append(token)
        if self.down:
            return Unknown("no answer within 4 s")
        user = {"username": self.users.get(token), "groups": ["people"], "extra": {"scopes": ["a", "b"]}}
        return Done({"status": {"authenticated": token in self.users, "audiences": self.audiences, "user": user}})

    async def review_access(self, spec: Json) -> Outcome:
        wanted = spec["resourceAttributes"]
        assert (wanted["verb"], wanted["group"], wanted["resource"]) == (VERB, GROUP, RESOURCE)
        assert (spec["groups"], spec["extra"]) == (["people"], {"scopes": ["a", "b"]}), "rights may hang on these"
        self.asked.append((spec["user"], wanted.get("namespace", "")))
        if self.down:
            return Unknown("no answer within 4 s")
        return Done({"status": {"allowed": wanted.get("namespace", "") in self.rights[spec["user"]]}})


@dataclass
class Cluster(World):
    """Steps the ledger of a live service. Each pod is in the namespace of its job."""

    live: Live = field(kw_only=True)

    def do(self, *events: Event) -> tuple[Effect, ...]:
        ledger = self.live.ledger
        ledger.clock.time = self.now  # type: ignore[attr-defined]
        coming = {one.job.uid: one.job for one in events if isinstance(one, JobSeen)}
        latest = ledger.journal.latest
        ledger.step(*(self._placed(one, coming) for one in events))
        self.snapshot = ledger.snapshot
        return tuple(entry.effect for entry in ledger.journal.since(latest))

    def nodes(self, *shape: Node | str) -> Self:
        super().nodes(*shape)
        return self

    def _placed(self, event: Event, coming: dict[str, Job]) -> Event:
        if not isinstance(event, PodSeen) or not event.pod.job_uid:
            return event
        of = coming.get(event.pod.job_uid) or self.live.ledger.snapshot.jobs[event.pod.job_uid]
        return PodSeen(replace(event.pod, namespace=of.namespace))


def job(name: str, namespace: str = OURS) -> JobBuilder:
    return builders.job(name, uid=f"{namespace}/u-{name}", namespace=namespace)


def cluster(policy: str = "kod2", server: Server | None = None, **settings: Any) -> Cluster:
    """Return a cluster without nodes."""
    given = Settings.model_validate({"policy": policy, "lease": {"identity": "*"}, "coalesce_seconds": 0, **settings})
    live = Live(given, server or Server(), HandClock(), random.Random(1))
    live.ledger._carriers.clear()  # The tests' `World` carries the effects out itself and says which bindings succeed.
    return Cluster(live=live)


def drawn(seed: int, policy: str = "kod2") -> Cluster:
    """Draw a cluster whose jobs, in our namespace and in others, run, wait for one another, were shrunk for one
    another, have finished or were deleted.
    """
    chance, made = random.Random(seed), cluster(policy)
    made.nodes(*(f"n{index}" for index in range(chance.randint(2, 4))))
    # There are fewer jobs under OASiS: explaining a refusal plans every schedule again, which is slow.
    for number in range(4 if policy == "oasis" else chance.randint(5, 9)):
        namespace = chance.choice((OURS, HIDDEN))
        name = f"{'canary' if namespace == HIDDEN else 'mine'}-{number}"
        least = chance.randint(1, 3)
        one = job(name, namespace).ps(chance.randint(0, 2))
        one = one.workers(least, least + chance.choice((0, 2, 5)), cpu=chance.choice((1, 2, 4)), memory=1)
        one = one.with_(arrival=made.now, utility=chance.choice((0.1, 1.0, 30.0)), keeps_pods=chance.random() < 0.3)
        made.submit(one)
        for each in [*made.snapshot.jobs.values()]:
            if made.snapshot.gang(each.uid).state in (State.PLANNED, State.RUNNING) and not each.finished:
                made.bind(each)
                if chance.random() < 0.5:
                    made.operate(each)
        made.pass_time(chance.choice((1, 30, 70, 700)))
        running = [each for each in made.snapshot.running() if not each.finished]
        if running and chance.random() < 0.3:
            over = chance.choice(running)
            made.end(over) if chance.random() < 0.7 else made.do(JobGone(over.uid))
    return made


def client(made: Cluster, server: Server, token: str = "ann") -> httpx.AsyncClient:
    """Return a client of the listener for people."""
    headers = {"Authorization": f"Bearer token-{token}"} if token else {}
    transport = httpx.ASGITransport(made.live.guarded(server))
    return httpx.AsyncClient(transport=transport, base_url="http://kohort", headers=headers)


def here(made: Cluster) -> httpx.AsyncClient:
    """Return a client of the listener on loopback."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(made.live.rest()), base_url="http://kohort")
