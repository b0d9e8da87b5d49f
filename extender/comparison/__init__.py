"""Compares what another policy would decide with the recorded journal, in a process of its own, for the page and
REST.
"""
