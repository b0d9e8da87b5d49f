"""Check the service's logs and tasks (S15): no run may log an error, and no task may end with an exception that is not
read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.simulation.witness import Witness


class _Ear(logging.Handler):
    def __init__(self, witness: Witness) -> None:
        super().__init__(logging.ERROR)
        self._witness = witness

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        self._witness.violated("S15", f"{record.getMessage()}{f': {cause!r}' if cause else ''}")


@contextmanager
def heard(witness: Witness) -> Iterator[None]:
    """Record logged errors as violations while the context lasts; lower log levels are switched off."""

    def unheard(_: asyncio.AbstractEventLoop, found: dict[str, Any]) -> None:
        witness.violated("S15", f"{found.get('message', '')}: {found.get('exception')!r}")

    loop, ear, root = asyncio.get_running_loop(), _Ear(witness), logging.getLogger()
    loop.set_exception_handler(unheard)
    root.addHandler(ear)
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        root.removeHandler(ear)
        # Tasks of killed processes end with the loop, so their exceptions do not matter.
        loop.set_exception_handler(lambda *_: None)
