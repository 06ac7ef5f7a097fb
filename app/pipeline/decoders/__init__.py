"""Decoding in processes of its own: chunks go out to whoever is free, pieces come back in order."""
