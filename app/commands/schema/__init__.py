"""`schema`: the schema history asked, checked and resolved; impact and replay of statements."""
