"""Metrics and health."""
