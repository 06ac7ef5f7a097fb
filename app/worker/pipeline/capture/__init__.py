"""Capture: the thread that reads the source, and the schema tracker that applies DDL in it."""
