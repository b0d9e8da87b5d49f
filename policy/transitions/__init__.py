"""How the state moves: facts, barrier, repair, and carrying out what a policy decided. Only ``step`` calls this room."""
