"""Has the HTTP listeners: limits of connections and requests, TLS, strict parsing of bodies, Kohort's own headers."""
