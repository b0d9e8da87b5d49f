"""Reads the settings from a YAML file (plain or in a ConfigMap), then from the environment, then from the command line;
a later value replaces an earlier one.

An unknown setting, or a value that cannot be used, stops the start with the field's name, its value and what is
allowed.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import EnvSettingsSource
from pydantic_settings.exceptions import SettingsError as EnvironmentValueError

from extender.config.plainyaml import YamlError, parse_yaml, read_yaml, texts_in
from extender.config.settings import DELIMITER, PREFIX, Settings

CONFIG_VARIABLE: Final = "KOHORT_CONFIG"
ENTRY: Final = "kohort.yaml"  # ENTRY is the key under which a ConfigMap holds the settings.
# These variables begin like settings but are none: KOHORT_CONFIG, variables of our tests and tools and of the command
# line, and variables that Kubernetes sets in every container of a namespace with a Service named kohort or kohort-...
NOT_A_SETTING: Final = re.compile(
    r"KOHORT_(CONFIG|(CACHE|TEST|KIT|CI|DEMO|BENCH|CLI)(_.*)?|([A-Z0-9_]*_)?(SERVICE_HOST|(SERVICE_)?PORT(_[A-Z0-9_]+)?))"
)


class SettingsError(Exception):
    """The settings cannot be used; the text names each field, its value and what is allowed."""


def load_settings(path: str | Path | None = None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Return the settings from the settings file, the environment and ``overrides``; later values replace earlier ones.

    ``path``: the settings file; None for the file that KOHORT_CONFIG names, if any. Raises SettingsError.
    """
    named = path if path is not None else os.environ.get(CONFIG_VARIABLE) or None
    try:
        values = _from_file(named) if named is not None else {}
        merged = _merge(_merge(values, _from_environment()), overrides or {})
    except (YamlError, SettingsError) as error:
        raise SettingsError(f"settings {named or 'of the environment'} cannot be used:\n  {error}") from None
    try:
        return Settings(**merged)
    except ValidationError as error:
        lines = [line for details in error.errors() for line in _error_lines(details)]
        origin = f"settings {named}" if named is not None else "settings"
        raise SettingsError("\n  ".join([f"{origin} cannot be used:", *lines])) from None


def _from_file(path: str | Path) -> dict[str, Any]:
    """Return the settings in a file, which holds them itself or is a ConfigMap with an entry kohort.yaml."""
    found = read_yaml(path)
    if (texts := texts_in(found)) is None:
        return found
    if ENTRY not in texts:
        held = ", ".join(sorted(texts)) or "none"
        raise SettingsError(f"the ConfigMap holds no settings; allowed: an entry {ENTRY}; it has {held}")
    return parse_yaml(texts[ENTRY])


def _from_environment() -> dict[str, Any]:
    """Return the settings in the environment variables KOHORT_<SETTING> and KOHORT_<SECTION>__<SETTING>.

    Raises SettingsError for a variable whose name is not that of a setting.
    """
    known = tuple(f"{PREFIX}{name.upper()}" for name in Settings.model_fields)
    for name in _variables():
        spelled = name.upper()
        if spelled.split(DELIMITER)[0] not in known:
            raise SettingsError(
                f"{name}: an unknown setting in the environment{_nearest(spelled.split(DELIMITER)[0], known)}"
            )
    try:
        return EnvSettingsSource(Settings)()
    except EnvironmentValueError as error:
        raise SettingsError(f"{_not_json()}: {error}") from None


def _variables() -> list[str]:
    """Return the names of the environment variables that begin with KOHORT_ and should be settings."""
    ours = (name for name in sorted(os.environ) if name.upper().startswith(PREFIX))
    return [name for name in ours if not NOT_A_SETTING.fullmatch(name.upper())]


def _not_json() -> str:
    """Return the message about an environment variable for a section or a list whose value is not JSON.

    The message names the variable and its value, because the error of pydantic-settings names neither.
    """
    for name in filter(_holds_many, _variables()):
        try:
            json.loads(os.environ[name])
        except ValueError:
            shown = _short(os.environ[name])
            return f'{name}: {shown} is not allowed; allowed: JSON, as ["one", "two"] or {{"setting": 1}}'
    return "an environment variable of a whole section or of a list must be JSON"


def _holds_many(variable: str) -> bool:
    """Tell whether the setting that an environment variable names is a section or a list, so that it must be JSON."""
    kind: Any = Settings
    for part in variable.upper().removeprefix(PREFIX).split(DELIMITER):
        fields = getattr(kind, "model_fields", {})
        if part.lower() not in fields:
            return False
        kind = fields[part.lower()].annotation
    return hasattr(kind, "model_fields") or get_origin(kind) is tuple


def _merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(below, value) if both and below is not None else value
    return merged


# The values say what is allowed, by the type of pydantic's error, because pydantic's texts use Python's type names.
_ALLOWED: Final = {
    "model_type": "a mapping of settings",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "string_type": "text",
    "tuple_type": "a list: [one, two]",
    "string_too_short": "text that is not empty",
}


def _error_lines(details: ErrorDetails) -> Iterable[str]:
    """Return the lines of the message about one error of pydantic; they name field, value, and what is allowed."""
    field = ".".join(str(part) for part in details["loc"])
    message = details["msg"].removeprefix("Value error, ")
    if not field:
        return message.split("\n")
    if details["type"] == "extra_forbidden":
        known = _fields_beside(details["loc"])
        return [f"{field}: an unknown setting{_nearest(str(details['loc'][-1]), known)}"]
    allowed = _ALLOWED.get(details["type"]) or message.removeprefix("Input should be ")
    allowed = allowed.replace("String should match pattern", "text like")
    return [f"{field}: {_short(details['input'])} is not allowed; allowed: {allowed}"]


def _fields_beside(location: tuple[int | str, ...]) -> tuple[str, ...]:
    model: Any = Settings
    for part in location[:-1]:
        model = model.model_fields[part].annotation
    return tuple(model.model_fields)


def _nearest(name: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; allowed: {', '.join(known)}"


def _short(value: object, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}…"
