"""The comparing process: reads a request from standard input and writes the answer to standard output, both as JSON.

The process runs with the lowest CPU priority and is killed first when memory runs out, so that the service beside it
can go on answering kube-scheduler.
"""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from extender.clock import Clock
from extender.comparison.comparepolicies import NothingRecordedError, compare, newest_recording
from extender.present.views.comparison import ComparisonView
from extender.state.record import RecordError
from policy.systems import make_policy

NICEST = 19


class ComparisonRequest(BaseModel):
    """A request to compare the policy of the journal in ``folder`` with ``policy``, which gets ``parameters``.

    ``seconds``, ``bytes``: how much time and memory the comparison may take.
    """

    folder: str
    policy: str
    parameters: dict[str, Any] = {}
    seconds: float
    bytes: int


class ComparisonAnswer(BaseModel):
    """The comparison, or in ``error`` the reason why there is none."""

    found: ComparisonView | None = None
    error: str = ""


def answer(request: ComparisonRequest, clock: Clock) -> ComparisonAnswer:
    """Make the comparison and return it, or the reason why it cannot be made."""
    began = clock.monotonic()

    def in_time(share: float) -> bool:
        return clock.monotonic() - began <= request.seconds * share

    try:
        recording = newest_recording(Path(request.folder))
        if recording is None:
            raise NothingRecordedError("no step is recorded yet; repeat this when the service has decided something")
        return ComparisonAnswer(found=compare(recording, make_policy(request.policy, **request.parameters), in_time))
    except (NothingRecordedError, RecordError, OSError, ValueError) as error:
        return ComparisonAnswer(error=str(error))
    except MemoryError:
        return ComparisonAnswer(
            error=(
                f"the comparison needs more memory than journal.compare_bytes allows ({request.bytes}); raise that "
                "setting"
            )
        )


def _yield_to_the_service(request: ComparisonRequest) -> None:
    os.nice(NICEST)
    with suppress(OSError):  # the file /proc/self/oom_score_adj exists on Linux only
        Path("/proc/self/oom_score_adj").write_text("1000")
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (request.bytes, request.bytes))


def main() -> None:
    """Answer the request on standard input, and end."""
    try:
        request = ComparisonRequest.model_validate_json(sys.stdin.buffer.read())
    except ValidationError as error:
        raise SystemExit(f"standard input is not a comparison request: {error}") from None
    _yield_to_the_service(request)
    sys.stdout.write(answer(request, Clock()).model_dump_json())


if __name__ == "__main__":
    main()
