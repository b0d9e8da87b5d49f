"""REST's answers as pydantic models: the service writes them, the command line and the controller read them.

Times are seconds since the epoch unless the name says otherwise. This room knows what an answer says; it must not know
how a view is made from a snapshot.
"""
