"""Build the control plane, or start or end one that stays up: ``python -m tests.controlplane build | up | down``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.controlplane.build import build
from tests.controlplane.cluster import DIRECTORY, USUAL_PORTS, down, up
from tests.controlplane.definitions import DEFINITIONS, definition
from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.nodes import NodeShape
from tests.controlplane.recipes import MONITORING, RECIPES

HOURS = "CLUSTER_HOURS"


def main() -> int:
    """Run one command; return 1, with the reason on standard error, when it fails."""
    arguments = _parser().parse_args()
    try:
        match arguments.command:
            case "build":
                _build()
            case "up":
                _up(arguments)
            case _:
                _down(arguments)
    # An OSError comes from a full disk, or from a folder that cannot be written.
    except (ControlPlaneError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="python -m tests.controlplane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build what the cache lacks")
    starts = commands.add_parser("up", help="start a control plane with Kohort and leave it running")
    starts.add_argument("--nodes", type=int, default=3, help="how many nodes (default 3)")
    starts.add_argument("--cpu", default="10", help="cores of a node (default 10)")
    starts.add_argument("--memory", default="32Gi", help="memory of a node (default 32Gi)")
    starts.add_argument("--gpu", type=int, default=1, help="GPUs of a node (default 1)")
    starts.add_argument(
        "--hours",
        type=float,
        default=float(os.environ.get(HOURS, "0")),
        help=f"end by itself after so many hours (default: {HOURS} of the environment, else never)",
    )
    starts.add_argument("--no-controller-manager", action="store_true", help="leave kube-controller-manager out")
    starts.add_argument("--no-kohort", action="store_true", help="leave Kohort out: the stock scheduler alone")
    starts.add_argument("--directory", type=Path, default=DIRECTORY, help="where it keeps its files (.cluster)")
    ends = commands.add_parser("down", help="end what up started")
    ends.add_argument("--directory", type=Path, default=DIRECTORY, help="the directory of up")
    ends.add_argument("--after-seconds", type=float, default=0, help=argparse.SUPPRESS)
    return parser


def _build() -> None:
    for one in DEFINITIONS:
        definition(one)
    for binary, path in build((*RECIPES, *MONITORING)).paths.items():
        print(f"{binary}: {path}")


def _up(arguments: argparse.Namespace) -> None:
    shape = NodeShape(arguments.nodes, arguments.cpu, arguments.memory, arguments.gpu)
    started = time.monotonic()
    cluster = up(
        shape,
        controller_manager=not arguments.no_controller_manager,
        kohort=not arguments.no_kohort,
        hours=arguments.hours,
        directory=arguments.directory.absolute(),
    )
    print(f"up in {time.monotonic() - started:.1f} s; end it with make cluster-down. To use it:")
    print(f"export KUBECONFIG={cluster.kubeconfig}")
    print(f'export PATH="{cluster.commands}:$PATH"  # kubectl, and the kohort that asks this cluster')
    if cluster.url:
        print("kubectl apply -f manifests/examples/tfjob.yaml; kohort jobs")
    if cluster.taken:
        print(f"port {USUAL_PORTS[0]} is used by another process: Kohort, and its page, are at {cluster.url} instead")


def _down(arguments: argparse.Namespace) -> None:
    time.sleep(arguments.after_seconds)
    ended = down(directory=arguments.directory)
    print(f"ended: {', '.join(ended)}" if ended else "no cluster was up")


if __name__ == "__main__":
    sys.exit(main())
