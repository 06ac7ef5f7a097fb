"""Consistent cuts: all tables as of one transaction of the source."""
