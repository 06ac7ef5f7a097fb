"""Spark: session, checkpoint, files, and its failures mapped to named errors."""
