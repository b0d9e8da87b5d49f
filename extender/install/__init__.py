"""Builds Kohort's manifests for one cluster, as `kohort render` prints them."""
