"""All changes of the state: by facts, the barrier, deadlines, repairs and decisions. Only ``step`` calls this room."""
