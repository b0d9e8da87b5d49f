"""Finds out by a Lease which replica leads, and when its term begins."""
