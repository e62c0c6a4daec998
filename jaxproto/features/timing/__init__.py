"""Simulated time of the clients' devices, and asynchronous rounds."""
