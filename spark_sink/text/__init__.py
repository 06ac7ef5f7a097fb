"""Text for logs and terminals: one line stays one line, whatever a name or an error holds."""
