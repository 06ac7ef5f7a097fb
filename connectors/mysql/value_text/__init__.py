"""The text of values in records, whether they come from a row or from a statement."""
