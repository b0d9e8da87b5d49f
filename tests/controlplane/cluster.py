"""A control plane that stays up after the command that started it: ``make cluster`` and ``make cluster-down``."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.kohort import CHECKOUT, Kohort, start_kohort
from tests.controlplane.nodes import NodeShape
from tests.controlplane.plane import ControlPlane
from tests.controlplane.state import Running, StateFile, end

DIRECTORY = CHECKOUT / ".cluster"
USUAL_PORTS = (8900, 8901, 8902)  # where the command line looks
SERVER = "kohort-server"
COMMANDS = "bin"
MARKER = "a-kohort-cluster-lives-here"


def up(
    shape: NodeShape,
    *,
    controller_manager: bool = True,
    kohort: bool = True,
    hours: float = 0,
    directory: Path = DIRECTORY,
) -> Path:
    """Start a control plane with Kohort that outlives this process, and return the admin's kubeconfig.

    ``hours`` other than 0 ends it by itself after that time. Raises ControlPlaneError when one is up already, or when
    ``directory`` holds something else.
    """
    state = StateFile(directory / "state.json")
    if alive := [process.name for process in state.read() if process.alive]:
        raise ControlPlaneError(f"a cluster is up already ({', '.join(alive)}): end it with make cluster-down")
    down(directory=directory)  # what a crash of the machine left
    if directory.exists():
        raise ControlPlaneError(f"{directory} holds something else than a cluster")
    directory.mkdir(parents=True)
    (directory / MARKER).touch()

    try:
        plane = ControlPlane.start(
            shape,
            controller_manager=controller_manager,
            workdir=directory,
            detached=True,
            on_start=lambda process: state.add(Running.of(process.name, process.pid)),
        )
        return _furnish(plane, kohort, hours)
    except BaseException:
        # The logs stay, the error names them.
        end(reversed(state.read()))
        state.path.unlink(missing_ok=True)
        raise


def down(*, directory: Path = DIRECTORY) -> list[str]:
    """End what ``up`` started, remove its files, and return the names of what was still running."""
    # Not ourselves: after --hours the last of the recorded processes is the one that does this.
    recorded = [process for process in StateFile(directory / "state.json").read() if process.pid != os.getpid()]
    alive = [process.name for process in recorded if process.alive]
    end(reversed(recorded))
    if (directory / MARKER).exists():  # never remove a folder that is not ours
        shutil.rmtree(directory, ignore_errors=True)
    return alive


def _furnish(plane: ControlPlane, kohort: bool, hours: float) -> Path:
    """Start what is beside the control plane and leave the kubeconfig where the user is told of it."""
    plane.start_scheduler()
    if kohort:
        _write_server(plane, start_kohort(plane, ports=USUAL_PORTS))
    if hours:
        _end_after(plane, hours)
    kubeconfig = plane.workdir / "kubeconfig"
    shutil.copy(plane.admin_kubeconfig, kubeconfig)
    _link_commands(plane)
    plane.api.close()
    return kubeconfig


def _link_commands(plane: ControlPlane) -> None:
    """Put kubectl and kohort into one folder, for whoever has neither on the PATH."""
    (plane.workdir / COMMANDS).mkdir()
    for name, target in (
        ("kubectl", plane.layout.binaries["kubectl"]),
        ("kohort", Path(sys.executable).parent / "kohort"),
    ):
        (plane.workdir / COMMANDS / name).symlink_to(target)


def _write_server(plane: ControlPlane, kohort: Kohort) -> None:
    """Leave a note of where the extender listens, for `server_option`."""
    (plane.workdir / SERVER).write_text("" if kohort.url.endswith(f":{USUAL_PORTS[0]}") else f" --server {kohort.url}")


def server_option(directory: Path = DIRECTORY) -> str | None:
    """What the command line needs to find Kohort: nothing where it has its usual port; None where it does not run."""
    note = directory / SERVER
    return note.read_text() if note.exists() else None


def _end_after(plane: ControlPlane, hours: float) -> None:
    plane.start_process(
        "cluster-down",
        sys.executable,
        "-m",
        "tests.controlplane",
        "down",
        "--after-seconds",
        str(hours * 3600),
        "--directory",
        str(plane.workdir),
        environment={"PYTHONPATH": str(CHECKOUT)},
    )
