"""The effects of DDL statements on the known tables."""
