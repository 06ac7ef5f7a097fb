"""DDL statements applied to the tables that are known."""
