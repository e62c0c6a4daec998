"""Runs the cells of a sweep on a Ray cluster."""
