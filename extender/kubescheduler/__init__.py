"""Reads and writes kube-scheduler's extender protocol, and checks its configuration file for faults that would break a
gang.
"""
