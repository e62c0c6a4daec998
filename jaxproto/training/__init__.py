"""The run: compiled programs, rounds, memory, progress."""
