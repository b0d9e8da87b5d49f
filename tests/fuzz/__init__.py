"""Seeded fuzzing: requests on every route, and pods, nodes and jobs."""
