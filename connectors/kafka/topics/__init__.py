"""Topics: how one has to be, made in requests, and checked before it is written to."""
