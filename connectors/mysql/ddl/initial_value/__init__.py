"""The value that existing rows get in a column that ALTER TABLE adds."""
