"""What the verbs and people are told: pure functions of the snapshot."""
