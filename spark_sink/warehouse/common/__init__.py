"""What the formats of a warehouse have in common: SQL, small tables, commits and their conflicts."""
