"""Finds the API server, the route to it and the credentials by kubectl's rules, for the command line and the services.

`resolve` makes a `Connection` from options, environment and files, and sends nothing. `transport` sends requests over
it.
"""
