"""Competing schedulers that run a solver for each decision, so they are simulated only and not served."""

from lab.sim.rivals.dorm import Dorm

RIVALS: dict[str, type[Dorm]] = {"dorm": Dorm}
