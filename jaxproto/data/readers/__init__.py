"""Data sets from TFDS, and from files of one's own."""
