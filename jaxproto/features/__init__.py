"""Features of a run: robust aggregation, hostile clients, privacy, simulated time."""
