"""The schema history as rows of the schema store."""
