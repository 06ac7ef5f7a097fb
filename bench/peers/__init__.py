"""Each peer: how it is set up for a workload, and how what it wrote is read."""
