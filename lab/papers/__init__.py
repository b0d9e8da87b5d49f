"""The papers' experiments: each runs a paper's jobs for a given seed, and states the bounds that our results must
meet.
"""
