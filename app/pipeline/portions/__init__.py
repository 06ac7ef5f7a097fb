"""Portions: what the stream of changes is made of on its way to decoders."""
