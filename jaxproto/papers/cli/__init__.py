"""The command that prepares a data set of TFDS."""
