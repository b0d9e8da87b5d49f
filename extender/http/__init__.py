"""Listeners: limits of connection and request, TLS, and strict reading of bodies."""
