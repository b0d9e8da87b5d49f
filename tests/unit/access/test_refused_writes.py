"""The listener for people shows no refused write of another namespace, and accepts no report of a refused write."""

from __future__ import annotations

import json
from dataclasses import replace

from extender.access.redaction import REFUSED
from extender.http.headers import CLIENT_HEADER, CONTROLLER
from policy.cluster.events import WritesRefused
from policy.cluster.gang import State
from policy.cluster.refusedwrite import RefusedWrite
from tests.unit.access.scenes import HIDDEN, OURS, Cluster, Server, client, cluster, job

SECRET = "Invalid: the canary's size is fixed"


def waiting() -> Cluster:
    """Return a cluster in which our job waits for a hidden job to shrink; the API server has refused this shrink."""
    made = cluster()
    made.nodes("n1")
    big = job("canary", HIDDEN).workers(2, 5, asked=5, cpu=2).with_(utility=0.1)
    made.submit(big)
    made.bind(big)
    made.now += 10
    heavy = replace(job("mine", OURS).workers(1, cpu=6).done(), utility=99.0, arrival=made.now)
    made.submit(heavy)
    assert made.snapshot.gang(heavy.uid).state is State.PLANNED
    (shrunk,) = [gang for gang in made.snapshot.gangs.values() if gang.scaling.on_behalf_of]
    made.do(WritesRefused((RefusedWrite("SetReplicas", shrunk.job_uid, SECRET, lasting=True),)))
    assert made.snapshot.gang(heavy.uid).state is State.WAITING
    return made


async def test_a_job_is_told_that_another_namespaces_write_is_refused_but_not_in_which_words() -> None:
    made, server = waiting(), Server()
    async with client(made, server) as people:
        for path in (f"/v1/explain/{OURS}/mine", "/v1/queue", "/v1/jobs", "/v1/decisions"):
            answer = await people.get(path)
            assert answer.status_code == 200
            assert "canary" not in answer.text
        (one,) = json.loads((await people.get(f"/v1/explain/{OURS}/mine")).text)["refused"]
        assert one["text"] == REFUSED
        page = await people.get("/")
        assert "canary" not in page.text


async def test_nobody_beyond_loopback_can_tell_of_refused_writes() -> None:
    made, server = waiting(), Server()
    headers = {CLIENT_HEADER: CONTROLLER}
    for token in ("ann", "root"):
        async with client(made, server, token) as people:
            answer = await people.post("/v1/refused-writes", json={"refused": []}, headers=headers)
        assert answer.status_code in (401, 403, 404), token
