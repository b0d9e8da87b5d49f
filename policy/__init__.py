"""The part of Kohort that decides. It is pure: it has no I/O, reads no clock, and uses no random numbers."""
