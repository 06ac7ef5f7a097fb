"""`subscriber`: groups of subscribers listed, and their positions shown and changed."""
