"""Gangs in virtual time: the same ``step``; pods are made, bound and ended whole, and work flows at a rate."""
