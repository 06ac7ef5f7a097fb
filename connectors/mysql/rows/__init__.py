"""Row events to values: the row decoder, the row counter, and the key that a partial image shows."""
