"""Peers: their setup for a workload, and the reading of their output."""
