"""Destinations: registry, supervisor, runs, and the watches beside a run."""
