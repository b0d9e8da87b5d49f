"""The steps of `make test` and `make full`, what they remember between runs, and how tests are spread and retried."""
