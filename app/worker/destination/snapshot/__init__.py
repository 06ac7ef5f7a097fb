"""Snapshots: the rows that exist already, read in chunks while the stream continues."""
