"""Runs the real extender and controller on the embedded cluster, within one process and in virtual time."""
