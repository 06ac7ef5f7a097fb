"""Portions of the stream on its way to decoders: captured chunks, inserted rows, new rules."""
