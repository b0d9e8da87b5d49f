"""Execute another program, after preparations that the new process has to make itself.

It runs as a script, ``python -I -S launcher.py PARENT HOSTNAME PROGRAM ARGUMENTS...``, because code between fork and
exec of a threaded Python process (preexec_fn) may deadlock. PARENT is the process whose death ends the program (0:
none); HOSTNAME is a host name for the program alone (``-``: the machine's).
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys

PR_SET_PDEATHSIG = 1
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000


def main() -> None:
    """Prepare and exec; exit with a line on standard error if that fails."""
    parent, hostname, *program = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if hostname != "-":
        take_hostname(libc, hostname)
    if int(parent):
        die_with(libc, int(parent))
    os.execv(program[0], program)


def take_hostname(libc: ctypes.CDLL, hostname: str) -> None:
    """Give this process its own host name, because kube-scheduler's identity in its Lease is hostname_uuid."""
    if libc.unshare(CLONE_NEWUTS) and libc.unshare(CLONE_NEWUSER | CLONE_NEWUTS):
        sys.exit(f"launcher: no host name of its own for this process: {os.strerror(ctypes.get_errno())}")
    socket.sethostname(hostname)


def die_with(libc: ctypes.CDLL, parent: int) -> None:
    """Let the kernel kill this process when ``parent`` dies for any reason."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent has died before prctl was called, so the kernel would not tell this process.
    if os.getppid() != parent:
        sys.exit("launcher: the parent is gone")


if __name__ == "__main__":
    main()
