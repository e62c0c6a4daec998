"""Readers of data sets: TFDS, and the user's own files."""
