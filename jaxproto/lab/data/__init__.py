"""Further readers of data sets, and partitions of other programs."""
