"""Check the Lease by which the extenders elect their leader (`lease.elect`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from extender.kube.api import Json
from lab.virtual.clocks import loop_time

DURATION: Final = 15.0  # the Lease's leaseDurationSeconds


class Leases:
    """Checks S8: a replica writes its own name in the Lease, with the version that it read, and takes no Lease that was
    renewed within its duration.
    """

    def __init__(self, stored: Callable[[], Json], violated: Callable[[str, str], None]) -> None:
        self._stored = stored
        self._violated = violated
        self._renewed = -DURATION

    def judge(self, replica: str, content: Mapping[str, Any]) -> None:
        """Check a write of the Lease by that replica, before the API server decides on it."""
        found = self._stored()
        if not content["version"]:
            self._violated("S3", f"{replica} writes the Lease without a resourceVersion")
        if content["version"] != found["metadata"]["resourceVersion"]:
            return  # The API server will refuse this write, because its version is not the newest.
        holder = (found.get("spec") or {}).get("holderIdentity") or ""
        wanted = content["spec"].get("holderIdentity") or ""
        if wanted.partition("_")[0] != replica:
            self._violated("S8", f"{replica} writes {wanted or 'nobody'} into the Lease")
        age = loop_time() - self._renewed
        if holder not in ("", wanted) and age < DURATION:
            self._violated("S8", f"{wanted} takes the Lease, which {holder} renewed {age:.1f} s ago")

    def written(self) -> None:
        """Record that the API server accepted a write of the Lease."""
        self._renewed = loop_time()
