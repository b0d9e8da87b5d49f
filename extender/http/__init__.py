"""Listeners: limits of connection and request, TLS, strict reading of bodies, and headers of our own."""
