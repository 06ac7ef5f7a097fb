"""Row events to values: the decoder, whose code is generated for each table, and the row counter."""
