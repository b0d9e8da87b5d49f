"""Rivals that need a solver with a time limit, and so cannot be policies of the service: they are only simulated."""

from policy.sim.rivals.dorm import Dorm

RIVALS: dict[str, type[Dorm]] = {"dorm": Dorm}
