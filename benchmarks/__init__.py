"""Measurements of speed and memory, run from the repository root; see README.md."""
