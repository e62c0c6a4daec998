"""The command that runs a federation with Flower."""
