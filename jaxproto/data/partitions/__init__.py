"""Who gets which examples: the partitions, and public examples."""
