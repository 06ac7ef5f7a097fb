"""Snapshots in the journal: how far each table's existing rows have been read, and operators' requests."""
