"""SQL and small tables that the formats of a warehouse have in common."""
