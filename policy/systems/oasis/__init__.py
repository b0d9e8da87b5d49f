"""OASiS (Bao, Peng, Wu, Li, INFOCOM 2018): prices per resource, node and slot; each job is planned once, on arrival."""

from policy.systems.oasis.policy import Oasis

__all__ = ["Oasis"]
