"""Sweeps, tables, figures, pages, saved runs and further data formats."""
