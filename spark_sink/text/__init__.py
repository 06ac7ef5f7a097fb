"""Text for logs and terminals: one line stays one line, with any name or error in it."""
