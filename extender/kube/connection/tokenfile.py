"""Reads a token from a file, as client-go does: the token is the whole file without white space around it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from extender.kube.connection.target import unusable

NOT_IN_A_HEADER: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def token_in(where: str, file: str) -> str:
    """Return the token in a file, empty where no file is named. ``where``: the user, for messages.

    Raises ClusterError where the file cannot be read or is empty.
    """
    if not file:
        return ""
    try:
        token = Path(file).read_bytes().decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = str(error.strerror).lower() if isinstance(error, OSError) else "it is not UTF-8 text"
        raise unusable(f"{where}: tokenFile: {file!r}: {why}; name a file that holds a token") from None
    if not token:
        raise unusable(f"{where}: tokenFile: {file!r} is empty; write the token into it")
    return token


def header_value(field: str, value: str) -> str:
    """Return ``value`` if it can stand in an HTTP header; otherwise raise ClusterError, which names ``field``."""
    if NOT_IN_A_HEADER.search(value):
        raise unusable(f"{field} contains a line break or another control character; remove it")
    return value
