"""Several sources of one destination, and the effect on it when one of them goes."""
