"""Callbacks that log to MLflow and Aim."""
