"""Texts for people: amounts of resources, numbers with a noun, and lists of names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from policy.cluster.job import PS
from policy.cluster.pod import Pod
from policy.cluster.resources import HOST_PORT, Resources

BYTES = ("memory", "ephemeral-storage", "hugepages-")
_PLAIN = re.compile(r"[ -~]*")
# _UNSEEN has the Unicode categories of control characters, bidi marks, surrogates and other signs that cannot be seen.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
SIZES = {"EiB": 2**60, "PiB": 2**50, "TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10}


def visible(text: str) -> str:
    """Return the text with each character replaced by � that cannot be seen or changes the direction of the text.

    Such characters in names that users chose could steer a terminal, or make a text look like another one.
    """
    if _PLAIN.fullmatch(text):
        return text
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(sign) in _UNSEEN else sign for sign in text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in the right form: ``1 worker``, ``3,000 workers``, ``2 ps``."""
    return f"{number:,} {noun}" if number == 1 or noun == PS else f"{number:,} {noun}s"


def and_more(number: int, what: str = "", shown_by: str = "") -> str:
    """Return the words that end a list with left-out entries: ``and 3 more that are older; -o wide shows all``.

    number: how many entries are not shown. what: words to put after "more". shown_by: the option or command that shows
    all entries; empty if there is none.
    """
    return f"and {number:,} more{what}" + (f"; {shown_by} shows all" if shown_by else "")


def listed(names: Sequence[str], most: int) -> str:
    """Return the first ``most`` names as one text, with the number of names left out: ``a, b and 3 more``."""
    shown = ", ".join(names[:most])
    return f"{shown} {and_more(len(names) - most)}" if len(names) > most else shown


def in_time(at: float) -> str:
    """Return a time (seconds since the epoch) for people: ``2026-11-28 12:00:00 UTC``."""
    days, second = divmod(int(at), 86_400)
    # The months are counted from March, so that the day that a leap year adds is the last one of its year.
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    of_year = day - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    date = (year + 400 * era + month // 10, (month + 2) % 12 + 1, of_year - (153 * month + 2) // 5 + 1)
    clock = (second // 3_600, second // 60 % 60, second % 60)
    return "{}-{:02}-{:02} {:02}:{:02}:{:02} UTC".format(*date, *clock)


def cpu_first(name: str) -> tuple[int, str]:
    """Return the sort key of a resource's name for people: cpu, then memory, then the others by name."""
    return ("cpu", "memory").index(name) if name in ("cpu", "memory") else 2, name


def in_words(resources: Resources) -> str:
    """Return amounts in words: ``3.5 cpu, 8 GiB memory, 2 nvidia.com/gpu``.

    The resource ``pods`` is left out, because every member asks for exactly 1.
    """
    return ", ".join(said(name, resources[name]) for name in resources if name != "pods")


def lack_in_words(resources: Resources) -> str:
    """Return missing amounts in words, ``pods`` included, because a node takes a limited number of pods."""
    return ", ".join(said(name, resources[name]) for name in resources)


def said(name: str, amount: int) -> str:
    """Return one amount in words: ``3.5 cpu``, ``8 GiB memory``, ``4 pods``, ``host port TCP/8080``."""
    if name.startswith(HOST_PORT):
        return f"host port {name.removeprefix(HOST_PORT)}"
    if name == "cpu":
        return f"{amount / 1000:.4g} cpu"
    if name.startswith(BYTES):
        return f"{_bytes(amount)} {name}"
    if name == "pods":
        return counted(amount, "pod")
    return f"{amount} {name}"


def ending_in_words(pod: Pod) -> str:
    """Return the words that the pod is terminating, on which node, and which finalizers keep it."""
    where = f" on {pod.node}" if pod.node else ""
    return ", ".join(part for part in (f"{pod.key}{where} is terminating", kept_in_words(pod)) if part)


def kept_in_words(pod: Pod) -> str:
    """Return in words which finalizers keep a terminating pod; empty if none does."""
    if not pod.finalizers:
        return ""
    return f"kept by its {'finalizer' if len(pod.finalizers) == 1 else 'finalizers'} {', '.join(pod.finalizers)}"


def _bytes(amount: int) -> str:
    unit = next((unit for unit, size in SIZES.items() if abs(amount) >= size), "")
    return f"{amount / SIZES[unit]:.4g} {unit}" if unit else f"{amount} B"
