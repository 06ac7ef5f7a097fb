"""The schema history as stored: its records as JSON, in the journal, and folded again."""
