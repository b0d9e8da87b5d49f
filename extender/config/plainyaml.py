"""Parses a YAML file that a user wrote for Kohort.

The file must be one mapping of limited size, without aliases and repeated keys. This module must not know what the
mapping means.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

MAX_FILE_BYTES: Final = 1024 * 1024


class YamlError(Exception):
    """The YAML text cannot be parsed, or its file cannot be read; the message is one sentence."""


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Return the mapping in a YAML file. Raises YamlError, also for a file of more than `MAX_FILE_BYTES` bytes."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise YamlError(f"the file cannot be read: {error.strerror}") from None
    if len(text) > MAX_FILE_BYTES:
        raise YamlError(f"the file is longer than the allowed {MAX_FILE_BYTES} bytes; shorten it")
    return parse_yaml(text)


def parse_yaml(text: bytes | str) -> dict[str, Any]:
    """Return the mapping in YAML text; an empty mapping where the text is empty. Raises YamlError for anything else."""
    try:
        value = yaml.load(text, Loader=_PlainLoader)  # _PlainLoader is as safe as the SafeLoader from which it derives
    except YAML_ERRORS as error:
        raise YamlError(f"not YAML: {in_one_line(error)}") from None
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise YamlError("the top level is not a mapping of names to values")
    return value


def texts_in(value: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the text entries of a ConfigMap's data, by name; None where the mapping ``value`` is no ConfigMap."""
    data = value.get("data")
    if value.get("kind") != "ConfigMap" or not isinstance(data, Mapping):
        return None
    return {str(name): text for name, text in data.items() if isinstance(text, str)}


# PyYAML raises its own error, and its constructors raise others: KeyError for `!!bool x`, AttributeError for
# `!!timestamp x`.
YAML_ERRORS: Final = (
    yaml.YAMLError,
    ValueError,
    LookupError,
    AttributeError,
    TypeError,
    ArithmeticError,
    RecursionError,
)


def in_one_line(error: Exception) -> str:
    """Return the error's text in one line, with the line and column of the YAML where they are known."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"{error.problem or error.context}, in line {mark.line + 1}, column {mark.column + 1}"
    return " ".join(str(error).split()) or type(error).__name__


class _PlainLoader(yaml.SafeLoader):
    """A YAML loader that refuses repeated keys, and aliases, because a few lines of aliases can expand to gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="an alias (*name) is not allowed", problem_mark=self.get_mark())
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in seen:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} is repeated", problem_mark=key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep=deep)
