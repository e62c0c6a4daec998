"""Training of a run: compiled programs, rounds, client stores, progress."""
