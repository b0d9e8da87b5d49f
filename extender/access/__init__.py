"""Who may see what of REST and the page, beyond loopback: whose token it is, and what its owner may read."""
