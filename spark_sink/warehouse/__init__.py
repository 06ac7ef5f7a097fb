"""The warehouse: Delta tables, their shapes, MERGE, the ledger, waiting tables, maintenance."""
