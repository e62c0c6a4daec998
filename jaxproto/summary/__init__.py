"""What is said of a run: summary, costs, disclosure, data, pictures."""
