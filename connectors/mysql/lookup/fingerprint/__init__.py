"""Digests of transactions without GTIDs: made, scanned on a server, and aligned with another's."""
