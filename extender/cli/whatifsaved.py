"""Answers what-if without the service, for the state at the end of a journal of the service or the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from extender.cli.errors import CliError, RefusedError
from extender.present.views.whatif import WhatIfView
from extender.routes.problems import ProblemError
from extender.routes.whatifquestion import WhatIf, answer
from extender.routes.wording import fault
from extender.state.record import RecordError, read
from policy.step import step

JOURNAL: Final = "a file of the service's journal (setting journal.folder)"


def ask_saved(file: Path, question: dict[str, Any], scheduler_name: str = "kohort") -> WhatIfView:
    """Replay the journal ``file``, and return the answer to the what-if ``question`` for the state after its last step.

    Raise CliError if the file cannot be read or the question is refused.
    """
    try:
        beginning, steps = read(file)
        snapshot, now = beginning.snapshot, 0.0
        for recorded in steps:
            snapshot, _ = step(snapshot, recorded.events, beginning.policy, recorded.at)
            now = recorded.at
    except OSError as error:
        raise CliError(f"--snapshot: {file}: {error.strerror}; name {JOURNAL} that you may read", 2) from None
    except RecordError as error:
        raise CliError(f"--snapshot: {error}; name {JOURNAL}", 2) from None
    if not snapshot.synced:
        raise CliError(f"--snapshot: {file} ends before the service had read all its lists; name a later file", 2)
    try:
        return answer(WhatIf.model_validate(question), snapshot, beginning.policy, scheduler_name, now)
    except ProblemError as error:
        raise RefusedError(error.view.detail, error.view.field, 2) from None
    except ValidationError as error:
        found = fault(dict(error.errors()[0]), WhatIf)
        raise RefusedError(found.detail, found.field, 2) from None
