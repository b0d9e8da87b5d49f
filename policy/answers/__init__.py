"""What the verbs answer and what people are told: pure functions of the snapshot."""
