"""``kohort demo``: the main job on the embedded cluster, shown."""
