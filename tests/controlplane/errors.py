"""The exception that the test kit of the control plane raises."""

from __future__ import annotations


class ControlPlaneError(RuntimeError):
    """The control plane could not be built, started or reached; the message says what to check."""
