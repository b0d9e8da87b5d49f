"""Rivals that need a solver, and so cannot be policies of the service: they are only simulated."""
