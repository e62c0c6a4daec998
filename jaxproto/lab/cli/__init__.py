"""Commands about finished runs, sweeps and data."""
