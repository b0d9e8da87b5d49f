"""kubectl's connection options as a user gives them. Cheap to import: every command of the command line reads it."""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class KubectlOptions:
    """kubectl's options by their kubectl names; empty where an option is not given."""

    kubeconfig: str = ""
    context: str = ""
    cluster: str = ""
    user: str = ""
    as_user: str = ""  # --as
    as_uid: str = ""
    as_group: tuple[str, ...] = ()
    as_user_extra: tuple[str, ...] = ()  # each KEY=VALUE
    request_timeout: str = ""

    def __bool__(self) -> bool:
        """Tell whether any option is given."""
        return any(astuple(self))


NOTHING = KubectlOptions()
