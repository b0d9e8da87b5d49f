"""Applies changes of the settings file while the service runs.

A changed setting that can be applied without a restart is applied; other changed settings are reported as waiting for a
restart. A file that cannot be used changes nothing. The file's text is compared and not its time, because a mounted
ConfigMap's file is a symbolic link, whose target is replaced.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from extender.clock import Clock
from extender.config.settings import Settings
from extender.config.settingsfile import SettingsError, load_settings
from policy.systems import POD_BY_POD

POLICY_SETTINGS: Final = ("policy", "rebalance", "kod2", "parameters")
RELOADABLE: Final = (*POLICY_SETTINGS, "gate", "nominate_above_nodes", "log_level")
"""The settings that are applied without a restart. The policy is not, where a policy of `NOT_INTERCHANGEABLE` comes or
goes.
"""
NOT_INTERCHANGEABLE: Final = POD_BY_POD | {"rrh"}
"""Policies that cannot replace another policy, or be replaced by one, without a restart: they bind pods one by one and
know no gangs, or their schedule has no place for jobs that another policy started.
"""
LOOK_SECONDS: Final = 2.0
_log = logging.getLogger(__name__)


class Reload:
    """Follows the settings file, and calls ``apply`` with the settings in force whenever they have changed."""

    def __init__(self, settings: Settings, path: Path, clock: Clock, apply: Callable[[Settings], None]) -> None:
        """Prepare to follow ``path``, from which ``settings`` were read at the start; nothing happens before `run`."""
        self.settings = settings
        self.problem = ""
        """Why the file's newest text is not used, or which of its settings wait for a restart."""
        self._path = path
        self._clock = clock
        self._apply = apply
        self._seen = _text(path)

    async def run(self) -> None:
        """Read the settings file every `LOOK_SECONDS`, and apply its changes, until cancelled."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Read the settings file and apply it, if its text has changed since the last look."""
        text = _text(self._path)
        if text == self._seen:
            return
        self._seen = text
        try:
            wanted = load_settings(self._path)
        except SettingsError as error:
            self.problem = f"the settings file cannot be used, so the former settings stay in force: {error}"
            _log.error("%s", self.problem)
            return
        self._take(wanted)

    def _take(self, wanted: Settings) -> None:
        live = [name for name in RELOADABLE if name not in POLICY_SETTINGS or _same_kind(self.settings, wanted)]
        changes = {name: getattr(wanted, name) for name in live}
        before, self.settings = self.settings, self.settings.model_copy(update=changes)
        waiting = ", ".join(changed_settings(self.settings, wanted))
        self.problem = (
            f"the file's values of these settings take effect at the next restart: {waiting}" if waiting else ""
        )
        if applied := ", ".join(changed_settings(before, self.settings)):
            _log.info("these settings were applied: %s", applied)
            self._apply(self.settings)
        if self.problem:
            _log.warning("%s", self.problem)


def changed_settings(one: BaseModel, other: BaseModel, prefix: str = "") -> Iterator[str]:
    """Yield the names of the settings in which ``one`` and ``other`` differ, such as ``barrier.window_seconds``.

    ``prefix``: the name of the section that is compared, with a dot at the end; empty for all settings.
    """
    for name in type(one).model_fields:
        mine, theirs = getattr(one, name), getattr(other, name)
        if isinstance(mine, BaseModel) and isinstance(theirs, BaseModel):
            yield from changed_settings(mine, theirs, f"{prefix}{name}.")
        elif mine != theirs:
            yield f"{prefix}{name}"


def _same_kind(one: Settings, other: Settings) -> bool:
    """Tell whether the policy of ``other`` can replace the policy of ``one`` without a restart."""
    return one.system == other.system or NOT_INTERCHANGEABLE.isdisjoint((one.base, other.base))


def _text(path: Path) -> bytes | None:
    """Return the file's content; None where the file cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None
