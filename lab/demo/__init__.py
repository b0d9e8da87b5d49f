"""The command ``kohort demo``: ten jobs as in the KOD2 paper on embedded clusters, shown while they run."""
