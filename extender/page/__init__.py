"""The page for people at ``/``: read-only HTML made from a snapshot, which the browser keeps current by ``/v1/stream``.

Text that users chose goes through `formatting.clean` and an escaping template. Pages are made on a thread beside the
event loop. This room knows HTML; it must not know how a decision is made.
"""
