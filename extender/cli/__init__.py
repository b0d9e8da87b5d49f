"""The command line: its commands ask REST, write to the API server, or run the service or the controller."""
