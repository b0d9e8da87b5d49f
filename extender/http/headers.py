"""The names of the HTTP headers of Kohort itself."""

from __future__ import annotations

from typing import Final

CLIENT_HEADER: Final = "X-Kohort-Client"
CONTROLLER: Final = "controller"
"""The value of that header in the controller's requests: only these count as the controller's sign of life."""
FORWARDED_HEADER: Final = "x-kohort-authorization"
"""The header with a token for the service: the API server's proxy consumes Authorization itself."""
