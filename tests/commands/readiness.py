"""The conditions for a run to begin: no other run in this checkout, and enough disk space."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.commands.places import CHECKOUT, LOCK

TEMPORARY_MEGABYTES: Final = 2_000  # etcd's data and the logs of several control planes need this many megabytes.
CHECKOUT_MEGABYTES: Final = 500  # The caches of ruff, mypy and Python need this many megabytes.


class NotReadyError(RuntimeError):
    """A run cannot begin; the message says why and what to do."""


@contextmanager
def only_run(command: str, lock: Path = LOCK) -> Iterator[None]:
    """Lock the checkout for one run. Raises NotReadyError if another process has the lock.

    The kernel releases the lock when its holder dies, so a killed run leaves nothing to clean up.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            holder = handle.read().strip() or "another process"
            raise NotReadyError(
                f"{holder} runs in this checkout, and two runs would spoil each other's caches. "
                "Wait until it has ended, or test in a second checkout."
            ) from None
        handle.truncate(0)
        handle.write(f"`{command}` (process {os.getpid()})")
        handle.flush()
        yield


def check_space(free_megabytes: dict[Path, int] | None = None) -> None:
    """Raise NotReadyError if a disk lacks space.

    ``free_megabytes`` maps each folder to its free space in megabytes; None: the space is measured.
    """
    needs = {Path(tempfile.gettempdir()): TEMPORARY_MEGABYTES, CHECKOUT: CHECKOUT_MEGABYTES}
    for folder, least in needs.items():
        free = shutil.disk_usage(folder).free // 2**20 if free_megabytes is None else free_megabytes[folder]
        if free < least:
            advice = "delete something there" if folder == CHECKOUT else "delete something there, or set TMPDIR"
            raise NotReadyError(f"{folder} has {free} MB free, and the tests need {least} MB: {advice}.")
