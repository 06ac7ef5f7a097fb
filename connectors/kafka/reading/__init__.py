"""Committed records read: with an end, followed in many partitions, or for as long as a process lives."""
