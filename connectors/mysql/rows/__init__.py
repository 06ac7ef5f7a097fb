"""Row events to values: the row decoder, the row counter, and the key implied by a partial image."""
