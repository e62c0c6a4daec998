"""Devices: where the rows of clients and the examples are."""
