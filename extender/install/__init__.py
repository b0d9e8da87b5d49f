"""The manifests that Kohort ships, put together for one cluster."""
