"""Prometheus metrics, and the checks of health and readiness."""
