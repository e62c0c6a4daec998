"""Summaries, costs, metrics, tables and pictures of runs."""
