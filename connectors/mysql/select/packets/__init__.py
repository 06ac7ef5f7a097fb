"""Rows of a SELECT by a prepared statement: packets, which are decoded as the rows of the binlog are."""
