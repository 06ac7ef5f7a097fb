"""Columns and keys of tables: by information_schema, by table maps, and at a known position."""
