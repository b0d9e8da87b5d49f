"""Compares another policy with the recorded journal, in a process of its own, for the page and REST."""
