"""What a sink runs: the stream of batches, bulk loads, reloads, maintenance, metastore names, lag."""
