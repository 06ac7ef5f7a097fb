"""Existing rows that the sink reads from MySQL itself in parallel, into tables which the stream continues."""
