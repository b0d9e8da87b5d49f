"""The answers to the verbs and to people's questions: pure functions of the snapshot."""
