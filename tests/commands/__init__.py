"""What `make test` and `make full` run, what they remember between runs, and how a test run is spread and retried."""
