"""`schema`: query, check and resolve the schema history; impact and replay of statements."""
