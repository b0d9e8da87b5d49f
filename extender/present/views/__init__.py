"""What REST answers, as pydantic models: the service writes them, the CLI and the controller read them.

Times are seconds since the epoch unless the name says otherwise. This room knows words; it must not know how a view is
made from a snapshot.
"""
