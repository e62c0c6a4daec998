"""Federations whose clients are separate processes with data of their own."""
