"""What training code calls, shipped as the module ``kohort``; nothing but the standard library is imported.

    import kohort
    if kohort.report(metric=loss, step=step, steps=total).checkpoint:  # the job is about to be moved
        save_checkpoint()
        kohort.saved()

The pod needs a projected ServiceAccount token for the audience ``kohort.dev`` (docs/how-to/report-progress.md). A
report that cannot be delivered is dropped: training never waits for it and never fails by it.
"""

from __future__ import annotations

import json
import os
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

URL = "http://kohort-progress.kohort-system.svc:8903/v1/progress"
TOKEN = "/var/run/secrets/kohort.dev/token"
SECONDS = 2.0
EVERY_SECONDS = 5.0
TRIES = 3


class Answer(NamedTuple):
    """What became of a report: whether it was taken, and whether the training is asked to save its state now."""

    taken: bool = False
    checkpoint: bool = False

    def __bool__(self) -> bool:
        return self.taken


class _Pace:
    """When the last report was sent (monotonic seconds)."""

    last = -EVERY_SECONDS


def report(metric: float | None = None, step: int | None = None, steps: int | None = None) -> Answer:
    """Tell how far training is; at most every five seconds, the others are dropped. The answer is true if it was taken.

    ``KOHORT_PROGRESS_URL`` and ``KOHORT_TOKEN_FILE`` in the environment name another address and token.
    """
    now = time.monotonic()  # noqa: TID251 - runs in the training pod, where there is no clock of ours
    if now - _Pace.last < EVERY_SECONDS:
        return Answer()
    _Pace.last = now
    given = {"metric": metric, "step": step, "steps": steps}
    return _send(given)


def saved() -> bool:
    """Tell that the state is saved, as ``checkpoint`` has asked: the job may be moved. Returns whether it was taken."""
    return _send({"saved": True}).taken


def _send(given: dict[str, float | int | None]) -> Answer:
    """A replica that does not lead refuses; another one is asked."""
    answers = (_try(given) for _ in range(TRIES))
    return next((answer for answer in answers if answer.taken), Answer())


def _try(given: dict[str, float | int | None]) -> Answer:
    body = json.dumps({name: value for name, value in given.items() if value is not None}).encode()
    try:
        token = Path(os.environ.get("KOHORT_TOKEN_FILE", TOKEN)).read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(os.environ.get("KOHORT_PROGRESS_URL", URL), body, headers)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            asked = answer.status == 200 and json.loads(answer.read()).get("checkpoint") is True
            return Answer(answer.status in (200, 204), asked)
    except (OSError, ValueError, AttributeError):
        return Answer()
