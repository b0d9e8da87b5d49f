"""How the state moves: facts, barrier, repair, and carrying out a decision. Only ``step`` calls this room."""
