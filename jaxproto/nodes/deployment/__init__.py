"""Helpers for deployments of Flower: persistent clients, certificates."""
