"""The vocabulary: frozen values that every other room of policy/ speaks."""
