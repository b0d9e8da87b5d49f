"""Readings of DRAGON where the paper leaves a choice."""

from __future__ import annotations

from enum import Enum


class Victims(Enum):
    """From which running jobs workers are taken for an urgent job (box 2).

    ``NODE_AWARE``: on the one node where the fewest workers have to go, the largest surplus first. ``SURPLUS``: the
    largest surplus first, on whatever node, as the paper says. ``QUEUE``: as in the author's code, job after job in the
    order of their starts, each down to its minimum. The last two may spread the urgent job over several nodes.
    """

    NODE_AWARE = "node-aware"
    SURPLUS = "surplus"
    QUEUE = "queue"


class Urgent(Enum):
    """Which urgent job counts as the smallest.

    ``RESOURCES``: by the resources of its minimum; ``WORKERS``: by its minimum of workers alone, as in the author's
    code. ``ARRIVAL``: size does not count; the job that came first is helped first, as in a later version of the code
    from the same laboratory.
    """

    RESOURCES = "resources"
    WORKERS = "workers"
    ARRIVAL = "arrival"


class Sizes(Enum):
    """With how many workers a job may start (box 3).

    ``ASKED``: as many as it asks for; ``ASKED_OR_LEAST``: as many as it asks for, or its minimum if those do not fit;
    ``MOST``: as many as fit, from those it asks for down to its minimum.
    """

    ASKED = "asked"
    ASKED_OR_LEAST = "asked-or-least"
    MOST = "most"


class Idle(Enum):
    """From which moment the idle threshold is counted (box 4).

    ``GLOBAL``: from DRAGON's last action, as in the author's code; ``NODE``: for each node from the last change of its
    free room, and only nodes that were idle for long enough are filled.
    """

    GLOBAL = "global"
    NODE = "node"
