"""Rivals that need a solver for each decision, and so cannot be policies of the service: they are only simulated."""

from lab.sim.rivals.dorm import Dorm

RIVALS: dict[str, type[Dorm]] = {"dorm": Dorm}
