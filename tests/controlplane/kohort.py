"""Starts Kohort beside a control plane: its scheduler, its extender and its controller."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import Process

CHECKOUT = Path(__file__).parents[2]
COMMANDS = ("serve", "controller")


def start_kohort(plane: ControlPlane) -> list[Process]:
    """Start what there is of Kohort and return it; what this checkout does not have yet is left out.

    The manifests' RBAC, ServiceAccounts and scheduler configuration join here once they exist.
    """
    environment = {"KUBECONFIG": str(plane.admin_kubeconfig), "PYTHONPATH": str(CHECKOUT)}
    return [
        plane.start_process(f"kohort-{command}", sys.executable, "-m", "extender", command, environment=environment)
        for command in COMMANDS
        if _exists(command)
    ]


def _exists(command: str) -> bool:
    """Tell whether ``kohort COMMAND`` is there."""
    asked = subprocess.run(
        [sys.executable, "-m", "extender", command, "--help"], cwd=CHECKOUT, capture_output=True, check=False
    )
    return asked.returncode == 0
