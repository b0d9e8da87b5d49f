"""The page for people at ``/``: HTML made from a snapshot, live by ``/v1/stream``, read-only.

Whatever a user has named goes through `words.clean` and an escaping template. Nothing is rendered on the event loop.
This room knows HTML; it must not know how a decision is made.
"""
