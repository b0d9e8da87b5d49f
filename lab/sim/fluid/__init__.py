"""The job-level simulator: the live ``step`` in virtual time, whole gangs, and work that flows at a rate."""
