"""Holds kubectl's connection options as a user gives them.

Every command of the command line imports this module, so it must be quick to import.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class KubectlOptions:
    """The values of kubectl's connection options; a field is empty where its option is not given."""

    kubeconfig: str = ""
    context: str = ""
    cluster: str = ""
    user: str = ""
    as_user: str = ""  # this is kubectl's option --as
    as_uid: str = ""
    as_group: tuple[str, ...] = ()
    as_user_extra: tuple[str, ...] = ()  # each entry has the form KEY=VALUE
    request_timeout: str = ""

    def __bool__(self) -> bool:
        """Tell whether any option is given."""
        return any(astuple(self))


NOTHING = KubectlOptions()
