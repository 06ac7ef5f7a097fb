"""Changes of a source's past, on real servers: each is read on or refused with its error."""
