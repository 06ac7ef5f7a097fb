"""DDL of the source in the warehouse: tables that are dropped and renamed."""
