"""Hostile clients, and aggregation that withstands them."""
