"""Settings: every knob, where its value comes from, and how a file is read."""
