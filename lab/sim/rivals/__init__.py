"""Competing schedulers that are simulated only and not served: they run a solver for each decision, or need an oracle.

Tiresias and Optimus, which run in the world of the Pollux artifact, are not in the table: they place workers only.
"""

from lab.sim.rivals.dorm import Dorm

RIVALS: dict[str, type[Dorm]] = {"dorm": Dorm}
