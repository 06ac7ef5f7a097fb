"""State that the journal keeps: cursors, quarantined tables, requests of operators, existing rows."""
