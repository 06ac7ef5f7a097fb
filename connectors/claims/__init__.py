"""The claim-check store: rows that are too large for their topics, in a folder or a bucket."""
