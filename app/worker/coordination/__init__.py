"""Coordination of workers: leadership, lease, write permit, and the assignment of destinations."""
