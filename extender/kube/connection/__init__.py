"""Which API server is asked, on which way and as whom: kubectl's own rules, for the command line and the services.

`resolve` makes a `Connection` from options, environment and files, and sends nothing. `transport` speaks over one.
"""
