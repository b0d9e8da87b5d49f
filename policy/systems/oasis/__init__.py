"""OASiS (Bao, Peng, Wu, Li, INFOCOM 2018): each job is planned once, on arrival, at the prices of the resources.

Every resource has a price on each node in each time slot.
"""

from policy.systems.oasis.policy import Oasis

__all__ = ["Oasis"]
