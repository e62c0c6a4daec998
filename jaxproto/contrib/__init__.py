"""Additions that the core does not need: attacks, deployments, launchers, loggers."""
