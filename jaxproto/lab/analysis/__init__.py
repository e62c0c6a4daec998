"""Reports on a configuration before training: data, cost, what crosses the network."""
