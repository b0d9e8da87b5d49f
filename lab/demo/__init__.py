"""The command ``kohort demo``: KOD2's ten jobs on the embedded cluster, shown while they run."""
