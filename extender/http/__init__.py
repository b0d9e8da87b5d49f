"""HTTP listeners: limits of connections and requests, TLS, strict parsing of bodies, and Kohort's own headers."""
