"""Headers of our own."""

from __future__ import annotations

from typing import Final

CLIENT_HEADER: Final = "X-Kohort-Client"
CONTROLLER: Final = "controller"
"""In that header: only the controller's questions count as its sign of life."""
FORWARDED_HEADER: Final = "x-kohort-authorization"
"""The API server's proxy takes Authorization for itself: the token for the service goes beside it."""
