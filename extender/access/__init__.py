"""Access control for REST and the page beyond loopback: who owns a request's token, and what that user may read."""
