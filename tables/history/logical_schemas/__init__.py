"""Logical schemas: the columns of the real tables of a logical one, united, and what the shards lack."""
