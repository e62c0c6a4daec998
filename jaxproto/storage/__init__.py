"""Files of a run: run directory, checkpoints and records."""
