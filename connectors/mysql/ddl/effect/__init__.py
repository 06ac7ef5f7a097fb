"""Statements applied: what each makes of the tables that are known."""
