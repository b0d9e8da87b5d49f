"""Exports Prometheus metrics, and checks health and readiness."""
