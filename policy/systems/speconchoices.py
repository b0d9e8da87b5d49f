"""Readings of SpeCon where the paper leaves a choice."""

from __future__ import annotations

from enum import Enum


class Gate(Enum):
    """When a converged job may ask for another node (line 15).

    ``GROWING``: if another job on its node still progresses, and so would profit. ``PRINTED``: if more than one
    container on its node is not converged (|PC| + |WC| > 1), which is rare with one or two jobs per node. ``OPEN``:
    always, because the paper's text has no such condition.
    """

    GROWING = "growing"
    PRINTED = "printed"
    OPEN = "open"


class FirstNode(Enum):
    """On which node a new job is placed, if that node takes the whole gang.

    ``TURN``: on the next node, round robin, as in the paper. ``SCORE``: on the node with the least S of Algorithm 2,
    and of equal ones on the next in turn.
    """

    TURN = "turn"
    SCORE = "score"
