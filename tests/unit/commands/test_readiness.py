"""A run that cannot begin says why, and what to do."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.commands.places import CHECKOUT
from tests.commands.readiness import NotReadyError, check_space, only_run

HOLD = """
import sys
from pathlib import Path
from tests.commands.readiness import only_run
with only_run("make full", Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_run_in_a_checkout_is_refused_by_the_name_of_the_first(tmp_path: Path) -> None:
    lock = tmp_path / "gate" / "lock"
    command = [sys.executable, "-c", HOLD, str(lock)]
    with subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdin is not None
        assert first.stdout.readline() == "held\n"
        with (
            pytest.raises(NotReadyError, match=rf"make full.*process {first.pid}.*second checkout"),
            only_run("x", lock),
        ):
            pass
        first.stdin.close()
    with only_run("make test", lock):  # the process that held the lock has ended
        assert "make test" in lock.read_text()


def test_a_full_disk_is_told_with_its_folder_and_what_to_do() -> None:
    temporary = Path(tempfile.gettempdir())
    with pytest.raises(NotReadyError, match=rf"{temporary} has 12 MB free.*2000 MB.*TMPDIR"):
        check_space({temporary: 12, CHECKOUT: 10_000})
    with pytest.raises(NotReadyError, match=rf"{CHECKOUT} has 12 MB free"):
        check_space({temporary: 10_000, CHECKOUT: 12})
    check_space({temporary: 10_000, CHECKOUT: 10_000})
