"""Wrappers of a method: privacy, robustness, asynchronous rounds."""
