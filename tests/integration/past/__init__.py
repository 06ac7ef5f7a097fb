"""What changes a source's past, on real servers: each is read on, or refused by name."""
