"""kube-scheduler's own words: the extender protocol, its configuration file, and what in it would break a gang."""
