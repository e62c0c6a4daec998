"""Comparison of methods with the released code."""
