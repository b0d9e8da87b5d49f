"""Talks to the Kubernetes API: `client` calls it, `reflector` follows its watches, `translate` reads its objects."""
