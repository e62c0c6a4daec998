"""Clipping, noise and their accounting."""
