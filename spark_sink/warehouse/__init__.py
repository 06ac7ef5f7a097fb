"""The warehouse: its Protocol, shapes and identity of rows, the ledger, waiting tables, maintenance."""
