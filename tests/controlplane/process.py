"""One running program of the control plane."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.controlplane.errors import ControlPlaneError

LAUNCHER = Path(__file__).with_name("launcher.py")
TAIL_LINES = 25
# The kernel's "kill me when my parent dies" refers to the parent thread. All children are started in this thread, which
# lives as long as the interpreter, so that a test may start a process from a thread that ends.
_NURSERY = ThreadPoolExecutor(max_workers=1, thread_name_prefix="controlplane-nursery")


@dataclass(slots=True)
class Process:
    """A program that can be started, signalled and stopped; its output goes to ``log``.

    ``url`` is where it serves, if it does. It has its own session: Ctrl-C on the terminal reaches only Python, which
    then stops the programs in order.
    """

    name: str
    command: Sequence[str]
    log: Path
    url: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    hostname: str = "-"
    detached: bool = False
    _popen: subprocess.Popen[bytes] | None = None

    def start(self) -> Process:
        """Start the program and return itself."""
        parent = "0" if self.detached else str(os.getpid())
        command = [sys.executable, "-I", "-S", str(LAUNCHER), parent, self.hostname, *self.command]
        with self.log.open("ab") as output:
            self._popen = _NURSERY.submit(
                subprocess.Popen,
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | dict(self.environment),
                start_new_session=True,
            ).result()
        return self

    @property
    def pid(self) -> int:
        """Return the process id, which is the same for the launcher and the program."""
        return self._started.pid

    @property
    def alive(self) -> bool:
        """Tell whether the program is running; a paused program counts as running."""
        return self._popen is not None and self._popen.poll() is None

    def kill(self, sig: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to this process; as it was not waited for, its id cannot belong to another one yet."""
        self._started.send_signal(sig)

    def pause(self) -> None:
        """Suspend the program with SIGSTOP, like a machine that hangs."""
        self.kill(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused program continue."""
        self.kill(signal.SIGCONT)

    def stop(self, grace: float = 5.0) -> None:
        """End the program: SIGTERM, and SIGKILL if it still runs after ``grace`` seconds."""
        self.ask_to_stop()
        if not self.alive:
            return
        try:
            self._started.wait(grace)
        except subprocess.TimeoutExpired:
            self.kill()
            self._started.wait()

    def ask_to_stop(self) -> None:
        """Send SIGTERM and return immediately."""
        if self.alive:
            self.kill(signal.SIGTERM)
            self.resume()  # A paused process does not handle SIGTERM, so it is resumed.

    def crash(self) -> None:
        """Kill the program with SIGKILL and wait until it is gone."""
        if self.alive:
            self.kill()
            self._started.wait()

    def restart(self) -> None:
        """Stop the program and start it again with the same arguments and log."""
        self.stop()
        self.start()

    def tail(self) -> str:
        """Return the last lines of the log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-TAIL_LINES:])

    def wait_until(self, ready: Callable[[], bool], what: str, limit: float) -> None:
        """Wait until ``ready()`` returns true.

        Raises ControlPlaneError with the path and the end of the log if the program ends or the time is up first.
        """
        deadline = time.monotonic() + limit
        while not ready():
            if not self.alive:
                raise self._failure(f"ended with code {self._started.returncode} before {what}")
            if time.monotonic() > deadline:
                raise self._failure(f"not {what} within {limit:.0f} s")
            time.sleep(0.05)

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        if self._popen is None:
            raise ControlPlaneError(f"{self.name} was never started")
        return self._popen

    def _failure(self, text: str) -> ControlPlaneError:
        return ControlPlaneError(f"{self.name}: {text}\n--- end of {self.log}\n{self.tail()}\n---")
