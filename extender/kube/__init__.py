"""Knows the Kubernetes API: `client` talks to it, `reflector` follows it, `translate` reads its objects."""
