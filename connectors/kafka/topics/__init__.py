"""Topics: their required configuration, their creation in requests, and the check before writing."""
