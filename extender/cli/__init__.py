"""The command line: thin commands that ask REST, write to the API server, or run a process."""
