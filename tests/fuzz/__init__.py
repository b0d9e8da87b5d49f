"""Whatever comes, by seed: requests on every route, and pods, nodes and jobs."""
