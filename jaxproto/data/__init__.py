"""Data sets by name, partitions over clients, and their description; on the host."""
