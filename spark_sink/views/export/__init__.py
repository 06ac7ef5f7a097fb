"""Snapshots: all tables of one consistent cut as plain Parquet, for readers of no table format."""
