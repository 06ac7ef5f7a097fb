"""Rows that a SELECT returns, in the binlog's form: the exact inverse of the row decoder."""
