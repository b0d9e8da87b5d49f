"""A control plane that stays up after the command that started it: ``make cluster`` and ``make cluster-down``."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.kohort import CHECKOUT, start_kohort
from tests.controlplane.nodes import NodeShape
from tests.controlplane.plane import ControlPlane
from tests.controlplane.state import RunningProcess, StateFile, end

DIRECTORY = CHECKOUT / ".cluster"
# These are the usual ports of the extender, of its probes, and of the controller's probes.
USUAL_PORTS = (8900, 8901, 8902)
COMMANDS = "bin"
MARKER = "a-kohort-cluster-lives-here"
# This is the kohort command of the cluster. It asks the cluster's service even if another process has the usual port.
OUR_KOHORT = """\
#!/bin/sh
export KOHORT_CLI_SERVER="${{KOHORT_CLI_SERVER:-{url}}}"
exec {kohort} "$@"
"""


@dataclass(frozen=True, slots=True)
class StartedCluster:
    """The cluster that `up` has started; ``url`` is the address of Kohort, empty if it runs without Kohort."""

    kubeconfig: Path
    url: str

    @property
    def commands(self) -> Path:
        """Return the path of the folder with kubectl and kohort, for users who have neither on the PATH."""
        return self.kubeconfig.parent / COMMANDS

    @property
    def taken(self) -> bool:
        """Tell whether Kohort's usual port was taken by another process, so that Kohort has another port."""
        return bool(self.url) and not self.url.endswith(f":{USUAL_PORTS[0]}")


def up(
    shape: NodeShape,
    *,
    controller_manager: bool = True,
    kohort: bool = True,
    hours: float = 0,
    directory: Path = DIRECTORY,
) -> StartedCluster:
    """Start a control plane with Kohort that outlives this process.

    With ``hours`` other than 0, the control plane ends by itself after that time. Raises ControlPlaneError if a cluster
    is up already, or if ``directory`` holds anything else.
    """
    state = StateFile(directory / "state.json")
    if alive := [process.name for process in state.read() if process.alive]:
        raise ControlPlaneError(f"a cluster is up already ({', '.join(alive)}): end it with make cluster-down")
    down(directory=directory)  # This removes files that are left if the machine has crashed.
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
            on_start=lambda process: state.add(RunningProcess.of(process.name, process.pid)),
        )
        return _furnish(plane, kohort, hours)
    except BaseException:
        # The logs are kept, because the error message names them.
        end(reversed(state.read()))
        state.path.unlink(missing_ok=True)
        raise


def down(*, directory: Path = DIRECTORY) -> list[str]:
    """End what ``up`` started, remove its files, and return the names of the processes that were still running."""
    # This process itself is left out, because after --hours it is the last of the recorded processes.
    recorded = [process for process in StateFile(directory / "state.json").read() if process.pid != os.getpid()]
    alive = [process.name for process in recorded if process.alive]
    end(reversed(recorded))
    if (directory / MARKER).exists():  # A folder without this marker was not made by `up`, so it is never removed.
        shutil.rmtree(directory, ignore_errors=True)
    return alive


def _furnish(plane: ControlPlane, kohort: bool, hours: float) -> StartedCluster:
    """Start the scheduler and Kohort, and write the kubeconfig to the path that is printed for the user. Return the
    cluster.

    With ``hours`` other than 0, a process is started that ends the cluster after that time.
    """
    plane.start_scheduler()
    url = start_kohort(plane, ports=USUAL_PORTS).url if kohort else ""
    if hours:
        _end_after(plane, hours)
    kubeconfig = plane.workdir / "kubeconfig"
    shutil.copy(plane.admin_kubeconfig, kubeconfig)
    cluster = StartedCluster(kubeconfig, url)
    _place_commands(plane, cluster)
    plane.api.close()
    return cluster


def _place_commands(plane: ControlPlane, cluster: StartedCluster) -> None:
    cluster.commands.mkdir()
    (cluster.commands / "kubectl").symlink_to(plane.layout.binaries["kubectl"])
    kohort = Path(sys.executable).parent / "kohort"
    command = cluster.commands / "kohort"
    if cluster.url:
        command.write_text(OUR_KOHORT.format(url=cluster.url, kohort=shlex.quote(str(kohort))))
        command.chmod(0o755)
    else:
        command.symlink_to(kohort)


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
