"""The comparing process: reads a question from standard input and writes the answer to standard output, both as JSON.

It is the first to lose CPU and memory where the machine lacks them: the service beside it answers kube-scheduler.
"""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from extender.clock import Clock
from extender.hindsight.compare import NothingRecordedError, compare
from extender.hindsight.question import Answer, Question
from extender.hindsight.tape import newest
from extender.state.record import RecordError
from policy.systems import make_policy

NICEST = 19


def answer(question: Question, clock: Clock) -> Answer:
    """Return the comparison, or why there is none."""
    began = clock.monotonic()

    def in_time(share: float) -> bool:
        return clock.monotonic() - began <= question.seconds * share

    try:
        tape = newest(Path(question.folder))
        if tape is None:
            raise NothingRecordedError("nothing is recorded yet")
        return Answer(found=compare(tape, make_policy(question.policy, **question.parameters), in_time))
    except (NothingRecordedError, RecordError, OSError, ValueError) as error:
        return Answer(error=str(error))
    except MemoryError:
        return Answer(error=f"more memory is needed than journal.compare_bytes allows ({question.bytes})")


def _yield_to_the_service(question: Question) -> None:
    os.nice(NICEST)
    with suppress(OSError):  # not on Linux
        Path("/proc/self/oom_score_adj").write_text("1000")
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (question.bytes, question.bytes))


def main() -> None:
    """Answer one question."""
    try:
        question = Question.model_validate_json(sys.stdin.buffer.read())
    except ValidationError as error:
        raise SystemExit(f"this is no question: {error}") from None
    _yield_to_the_service(question)
    sys.stdout.write(answer(question, Clock()).model_dump_json())


if __name__ == "__main__":
    main()
