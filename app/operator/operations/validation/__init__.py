"""Validation of a destination: what is compared, by which definitions, topic after topic."""
