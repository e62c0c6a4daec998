"""Work directories, checkpoints and records: what a run writes and reads back."""
