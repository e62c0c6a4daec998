"""Partitions of examples over clients, and public examples."""
