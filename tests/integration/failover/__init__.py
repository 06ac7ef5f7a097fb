"""Several sources of one destination, and what becomes of it when one of them goes."""
