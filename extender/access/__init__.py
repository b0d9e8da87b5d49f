"""Access to REST and the page from outside the pod: whose token a request has, and what its owner may read."""
