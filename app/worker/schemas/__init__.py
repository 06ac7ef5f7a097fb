"""Schema history and quarantine over a run: replay, release, expiry, and the schema store's mirror."""
