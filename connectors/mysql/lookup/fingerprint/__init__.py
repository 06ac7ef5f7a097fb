"""Digests of transactions without GTIDs: computed, scanned on a server, and aligned with another's."""
