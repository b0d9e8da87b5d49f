"""The names of the HTTP headers of Kohort itself."""

from __future__ import annotations

from typing import Final

CLIENT_HEADER: Final = "X-Kohort-Client"
CONTROLLER: Final = "controller"
"""The controller sends this value in `CLIENT_HEADER`; only such requests show that the controller is alive."""
FORWARDED_HEADER: Final = "x-kohort-authorization"
"""The header with the caller's token for requests through the API server's proxy, which removes Authorization."""
