"""Committed records read: one partition to its end, many topics, the newest records, and a tail."""
