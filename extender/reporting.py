"""Has the functions that training code calls; it is shipped as the module ``kohort`` and imports only the standard
library.

    import kohort
    if kohort.report(metric=loss, step=step, steps=total).checkpoint:  # the job is about to be moved
        save_checkpoint()
        kohort.saved()

The pod needs a projected ServiceAccount token for the audience ``kohort.dev`` (docs/how-to/report-progress.md). Numbers
may be of any type that ``float`` or ``int`` accepts (numpy's, a tensor's). Reports are sent on a thread, and a call
waits at most ``WAIT_SECONDS`` for the answer. A report that cannot be delivered is dropped; training never fails
because of it.
"""

from __future__ import annotations

import json
import os
import time
import urllib.request
from pathlib import Path
from threading import Thread
from typing import NamedTuple, SupportsFloat, SupportsInt

URL = "http://kohort-progress.kohort-system.svc:8903/v1/progress"
TOKEN = "/var/run/secrets/kohort.dev/token"
SECONDS = 2.0
WAIT_SECONDS = 0.2
EVERY_SECONDS = 5.0
TRIES = 3

Fields = dict[str, float | int]


class Answer(NamedTuple):
    """The answer to a report: whether Kohort has accepted it, and whether the training should save its state now."""

    taken: bool = False
    checkpoint: bool = False

    def __bool__(self) -> bool:
        return self.taken


class _Sending(Thread):
    """A thread that sends one report; as a daemon it does not keep a process alive whose training has ended."""

    def __init__(self, fields: Fields) -> None:
        super().__init__(name="kohort-report", daemon=True)
        self.fields = fields
        self.answer = Answer()
        self.seconds = 0.0
        self.returned = False

    def run(self) -> None:
        """Send the report and record its answer."""
        begun = _now()
        self.answer = _send(self.fields)
        self.seconds = _now() - begun

    def answer_once(self) -> Answer:
        """Return the answer, if it has come and was not returned before; otherwise an empty one.

        An answer is returned only once, because training that is asked twice to save would save twice.
        """
        if self.returned or self.is_alive():
            return Answer()
        self.returned = True
        return self.answer

    @property
    def prompt(self) -> bool:
        """Tell whether the report was accepted within `WAIT_SECONDS`; only then the next call waits for its answer."""
        return self.answer.taken and self.seconds <= WAIT_SECONDS


class _Pace:
    """Holds the last report, and the monotonic time in seconds at which it was sent."""

    last = -EVERY_SECONDS
    sent: _Sending | None = None


def report(
    metric: SupportsFloat | None = None, step: SupportsInt | None = None, steps: SupportsInt | None = None
) -> Answer:
    """Report the progress of the training: a metric such as the loss, and the steps done of all steps.

    A call sends nothing within five seconds of the last report, or while that one is being sent. The answer is true if
    the report was accepted. The call waits for the answer as long as Kohort answers promptly; an answer that comes
    later is returned by the next call, and none is returned twice. ``KOHORT_PROGRESS_URL`` and ``KOHORT_TOKEN_FILE`` in
    the environment name another address and token.
    """
    try:
        return _report(metric, step, steps)
    except Exception:  # the error may be a value that is no number, or a thread that cannot be started
        return Answer()


def saved() -> bool:
    """Report that the training has saved its state, as ``checkpoint`` has asked, so that the job may be moved.

    Return whether Kohort has accepted the report by now; if not, it is still being sent.
    """
    try:
        sending = _begin({"saved": True})
        sending.join(WAIT_SECONDS)
        return sending.answer_once().taken
    except Exception:
        return False


def _report(metric: SupportsFloat | None, step: SupportsInt | None, steps: SupportsInt | None) -> Answer:
    before, now = _Pace.sent, _now()
    late = before.answer_once() if before else Answer()
    if now - _Pace.last < EVERY_SECONDS or (before and before.is_alive()):
        return late
    _Pace.last = now
    numbers: dict[str, float | int | None] = {
        "metric": None if metric is None else float(metric),
        "step": None if step is None else int(step),
        "steps": None if steps is None else int(steps),
    }
    _Pace.sent = sending = _begin({name: number for name, number in numbers.items() if number is not None})
    if before is None or before.prompt:
        sending.join(WAIT_SECONDS)
    return sending.answer_once() or late


def _begin(fields: Fields) -> _Sending:
    sending = _Sending(fields)
    sending.start()
    return sending


def _now() -> float:
    return time.monotonic()  # noqa: TID251 - this code runs in the training pod, which does not have `extender.clock`


def _send(fields: Fields) -> Answer:
    """Send the report up to ``TRIES`` times, until it is accepted; return the answer, an empty one if none accepts it.

    A replica that does not lead refuses the report, and the next try may reach another replica.
    """
    answers = (_try(fields) for _ in range(TRIES))
    return next((answer for answer in answers if answer.taken), Answer())


def _try(fields: Fields) -> Answer:
    try:
        token = Path(os.environ.get("KOHORT_TOKEN_FILE", TOKEN)).read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        body = json.dumps(fields).encode()
        request = urllib.request.Request(os.environ.get("KOHORT_PROGRESS_URL", URL), body, headers)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            asked = answer.status == 200 and json.loads(answer.read()).get("checkpoint") is True
            return Answer(answer.status in (200, 204), asked)
    except Exception:  # a wrong address, a proxy or a malformed answer can cause any error
        return Answer()
